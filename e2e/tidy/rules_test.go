package tidy

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// ruleID is a rule's id, such as KBL-33 of KBL-33a. Names of tests have it without the dash.
	ruleID = regexp.MustCompile(`(?:\b|_|Test)(API|WCH|KBL|CRI|CTL|PRN|CLI|STK|HAZ|ART|UNS|TD|TRC)-?(\d{2,3})(?:[a-z]?\b|[A-Z_(])`)
	// guaranteeID is the id of a guarantee, for example A1, or of a threat, for example T19.
	guaranteeID = regexp.MustCompile(`(?:\b|Test)([AWDKCNLT][1-9]\d?)(?:\b|[A-Z])`)
	threatID    = regexp.MustCompile(`^T\d`)
	// series continues an id: the 22 and 23 of "API-21, 22, 23".
	series = regexp.MustCompile(`\b([A-Z]{2,3})-\d{2,3}((?:, \d{2,3}\b)+)`)
	// defines is the first cell of a row that defines an id, with or without a link.
	defines = regexp.MustCompile(`(?m)^\| \[?([A-Z]{2,3}-\d{2,3}|[AWDKCNLT]\d{1,2})\b.*\n`)
	// section is a reference that leads nowhere in the tree.
	section = regexp.MustCompile(`§|\b[Ss]ections? \d|\.md \d`)
)

// unnamed marks a rule that no code names; the reason follows.
const unnamed = "| not named in the code: "

// ruleRows returns the row that defines each id, by id.
func ruleRows(t *testing.T) map[string]string {
	t.Helper()
	book := map[string]string{}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "rules", "*.md"))
	if err != nil || len(pages) < 9 {
		t.Fatalf("%d pages in docs/rules, %v: looked in the wrong place", len(pages), err)
	}
	for i, page := range pages {
		pages[i] = strings.TrimPrefix(filepath.ToSlash(page), root+"/")
	}
	for _, page := range append(pages, "docs/scenarios.md", guaranteesPage, "docs/dev/threats.md") {
		for _, row := range defines.FindAllStringSubmatch(readText(t, page), -1) {
			if _, twice := book[row[1]]; twice {
				t.Errorf("%s defines %s a second time", page, row[1])
			}
			book[row[1]] = row[0]
		}
	}
	return book
}

// guaranteesPage is made of analysis/guarantees.
const guaranteesPage = "docs/dev/guarantees.md"

// idsIn returns the ids that a text names.
func idsIn(text string, patterns ...*regexp.Regexp) []string {
	var ids []string
	for _, pattern := range patterns {
		for _, match := range pattern.FindAllStringSubmatch(text, -1) {
			ids = append(ids, strings.Join(match[1:], "-"))
		}
	}
	for _, match := range series.FindAllStringSubmatch(text, -1) {
		for _, number := range strings.Split(match[2], ", ")[1:] {
			ids = append(ids, match[1]+"-"+number)
		}
	}
	return ids
}

// namedIDs returns the ids that comments, strings, stories, scenarios and documents name, each
// with a file that names it. A row that defines an id does not name it.
func namedIDs(t *testing.T) map[string]string {
	t.Helper()
	named := map[string]string{}
	note := func(path string, ids []string) {
		for _, id := range ids {
			named[id] = path
		}
	}
	walk(t, func(path string) {
		path = filepath.ToSlash(path)
		if path == "e2e/tidy/rules_test.go" || strings.Contains(path, "/testdata/fuzz/") {
			return
		}
		note(path, idsIn(strings.ToUpper(filepath.Base(path)), ruleID))
		switch filepath.Ext(path) {
		case ".go", ".proto", ".mutant":
			note(path, idsIn(readText(t, path), ruleID, guaranteeID))
		case ".txt", ".yaml", ".sh", "":
			note(path, idsIn(readText(t, path), ruleID))
		case ".md":
			note(path, idsIn(defines.ReplaceAllString(readText(t, path), ""), ruleID, guaranteeID))
		}
	})
	return named
}

// TestRulesAreDefined wants a definition in docs of every id that is named, and a name for every
// definition.
func TestRulesAreDefined(t *testing.T) {
	book, named := ruleRows(t), namedIDs(t)
	for id, path := range named {
		if _, defined := book[id]; !defined {
			t.Errorf("%s names %s, which no page of docs defines", path, id)
		}
	}
	for id, row := range book {
		if threatID.MatchString(id) {
			continue // its row names tests, and TestTestsNamedInDocumentsExist looks for them
		}
		_, used := named[id]
		if says := strings.Contains(row, unnamed); used == says {
			t.Errorf("%s: named %v, and marked as not named in the code %v; want one of them", id, used, says)
		}
	}
	if len(book) < 300 || len(named) < 300 {
		t.Errorf("%d ids defined, %d named: looked in the wrong place", len(book), len(named))
	}
}

// TestRulesNameTheirTests looks for the files that the rows of docs/rules say a rule is shown by.
func TestRulesNameTheirTests(t *testing.T) {
	files := map[string]bool{}
	walk(t, func(path string) { files[filepath.ToSlash(path)] = true })
	quoted := regexp.MustCompile("`([^`]+)`")
	for id, row := range ruleRows(t) {
		if !strings.Contains(id, "-") || strings.Contains(row, "](../chaos/scenarios/") {
			continue // guarantees, threats and scenarios have their tests elsewhere
		}
		row, _, _ = strings.Cut(row, " "+unnamed)
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(row), " |"), " | ")
		shown := cells[len(cells)-1]
		paths := quoted.FindAllStringSubmatch(shown, -1)
		if len(paths) == 0 && shown != "none yet" {
			t.Errorf("%s says neither which test shows it nor that none does", id)
		}
		for _, path := range paths {
			if !files[path[1]] {
				t.Errorf("%s is shown by %s, which is not there", id, path[1])
			}
		}
	}
}

// TestFaultRowsAreDefined looks up the rows of docs/faults.md in the catalogue.
func TestFaultRowsAreDefined(t *testing.T) {
	catalogue := map[int]bool{}
	rows, _, _ := strings.Cut(readText(t, "docs/rules/faults.md"), "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(rows, -1) {
		number, err := strconv.Atoi(row[1])
		if err != nil || catalogue[number] {
			t.Errorf("row %s twice, %v", row[1], err)
		}
		catalogue[number] = true
	}
	points := regexp.MustCompile("(?m)^\\| `[a-zA-Z.-]+` \\|.*\\| ([\\d, ]+) \\|[^|]*\\|$").FindAllStringSubmatch(readText(t, "docs/faults.md"), -1)
	for _, point := range points {
		for row := range strings.SplitSeq(point[1], ", ") {
			if number, err := strconv.Atoi(row); err != nil || !catalogue[number] {
				t.Errorf("docs/faults.md counts a point to row %s, which docs/rules/faults.md does not define", row)
			}
		}
	}
	if len(points) < 20 || len(catalogue) < 30 {
		t.Errorf("%d points, %d rows: looked in the wrong place", len(points), len(catalogue))
	}
}

// TestReferencesLeadSomewhere wants no section numbers: comments and documents name ids, files
// and functions of this tree.
func TestReferencesLeadSomewhere(t *testing.T) {
	walk(t, func(path string) {
		switch {
		case filepath.ToSlash(path) == "e2e/tidy/rules_test.go":
		case filepath.Ext(path) == ".go", filepath.Ext(path) == ".md", filepath.Ext(path) == ".proto":
			for line := range strings.Lines(readText(t, path)) {
				if match := section.FindString(line); match != "" {
					t.Errorf("%s refers to %q, which no page of the tree has: %s", path, match, strings.TrimSpace(line))
				}
			}
		}
	})
}
