package scenario

import (
	"encoding/xml"
	"fmt"
	"time"
)

// Report is the result of a scenario.
type Report struct {
	Scenario Scenario
	// Steps are the steps that were run. If one failed, it is the last.
	Steps []StepResult
	// Took is the duration in cluster time.
	Took time.Duration
	// Err is the failure; nil if the scenario succeeded.
	Err error
}

// StepResult is the result of a step.
type StepResult struct {
	Step Step
	Took time.Duration
	Err  error
}

// Title describes a step in one line.
func (s Step) Title() string {
	if s.Say != "" {
		return s.Say
	}
	switch {
	case s.Delete != nil:
		return "delete " + string(s.Delete.Object)
	case s.Evict != nil:
		return "evict " + string(s.Evict.Object)
	case s.Patch != nil:
		return "patch " + string(s.Patch.Object)
	case s.Wait != nil:
		return "wait " + s.Wait.Duration.String()
	case s.Expect != nil && s.Expect.Object != "":
		return "expect of " + string(s.Expect.Object)
	}
	return s.name()
}

// junitSuite is a JUnit file, as CI systems read it.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Seconds  string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Suite   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Seconds string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit formats reports as a JUnit file, with a test case for each scenario.
func JUnit(reports []Report) ([]byte, error) {
	all := junitSuite{Name: "podfall"}
	var took time.Duration
	for _, r := range reports {
		one := junitCase{Suite: "podfall", Name: r.Scenario.Name + ": " + r.Scenario.Title, Seconds: seconds(r.Took)}
		if r.Err != nil {
			one.Failure = &junitFailure{Message: firstLine(r.Err.Error()), Text: r.Err.Error()}
			all.Failures++
		}
		all.Cases = append(all.Cases, one)
		took += r.Took
	}
	all.Tests, all.Seconds = len(reports), seconds(took)
	data, err := xml.MarshalIndent(all, "", "  ")
	return append([]byte(xml.Header), append(data, '\n')...), err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func firstLine(text string) string {
	for i, c := range text {
		if c == '\n' {
			return text[:i]
		}
	}
	return text
}
