package simengine

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/services/runtime/engine"
)

// The clauses of a script. N is an exit code from 0 to 255, D a duration as Go writes
// it: 90s, 1m30s.
//
//	on TERM exits N [after D]   how it ends after the stop signal
//	ignores TERM                the stop signal does nothing
//	exits N [after D]           how it ends by itself, counted from when it runs
//	OOM after D                 it ends by itself, killed for its memory
//	starts after D              its start takes that long
//	fails to start              ... and then fails
//	survives KILL [for D]       SIGKILL does nothing, or ends it only D later
//	stop hangs                  no signal reaches it, and a stop never returns
//	exec exits N [after D]      how every command inside it ends, hooks and probes too
//	exec hangs                  no command inside it ends
//	answers after D             before that nothing answers on its ports
//	stops answering after D     from then on nothing does
//
// What a script does not say of the stop signal is as in the default script:
// on TERM exits 0 after 1s.

// ClauseError names the script clause that is invalid.
type ClauseError struct {
	Clause string
	Reason string
}

// Error implements error.
func (e *ClauseError) Error() string { return fmt.Sprintf("script clause %q: %s", e.Clause, e.Reason) }

// maxDuration is the longest duration allowed in a script.
const maxDuration = 100 * 365 * 24 * time.Hour

// Parse parses a script: clauses separated by commas, in any order, each at most once. Empty text
// is the default script. Errors are [ClauseError]s.
func Parse(text string) (Script, error) {
	p := parser{script: Default(), seen: map[string]string{}}
	if strings.TrimSpace(text) == "" {
		return p.script, nil
	}
	for clause := range strings.SplitSeq(text, ",") {
		p.clause = strings.TrimSpace(clause)
		p.words = strings.Fields(p.clause)
		if reason := p.readClause(); reason != "" {
			return Script{}, &ClauseError{Clause: p.clause, Reason: reason}
		}
	}
	return p.script, nil
}

type parser struct {
	script Script
	clause string
	words  []string // words of clause that are still unread
	// clause by subject
	seen map[string]string
}

// readClause reads one clause into the script. It returns why the clause is invalid, or "".
func (p *parser) readClause() (reason string) {
	switch {
	case len(p.words) == 0:
		return "it is empty"
	case p.accept("on", "TERM", "exits"):
		p.script.OnTerm = &Exit{}
		return p.rejectDuplicate("TERM", p.readExit(p.script.OnTerm))
	case p.accept("ignores", "TERM"):
		p.script.OnTerm = nil
		return p.rejectDuplicate("TERM", p.expectEnd())
	case p.accept("exits"):
		p.script.OwnExit = &Exit{}
		return p.rejectDuplicate("its own end", p.readExit(p.script.OwnExit))
	case p.accept("OOM"):
		p.script.OwnExit = &Exit{Code: engine.ExitKilled, Reason: engine.ReasonOOMKilled}
		return p.rejectDuplicate("its own end", p.readDuration("after", &p.script.OwnExit.After))
	case p.accept("starts"):
		return p.rejectDuplicate("its start", p.readDuration("after", &p.script.StartAfter))
	case p.accept("fails", "to", "start"):
		p.script.FailsToStart = true
		return p.rejectDuplicate("the end of its start", p.expectEnd())
	case p.accept("survives", "KILL"):
		p.script.SurvivesKill = true
		if len(p.words) == 0 {
			return p.rejectDuplicate("KILL", "")
		}
		return p.rejectDuplicate("KILL", p.readPositive("for", &p.script.KillTakes))
	case p.accept("stop", "hangs"):
		p.script.StopHangs = true
		return p.rejectDuplicate("stop", p.expectEnd())
	}
	return p.readTaskClause()
}

// readTaskClause reads a clause about exec or network answers of the running container.
func (p *parser) readTaskClause() (reason string) {
	switch {
	case p.accept("exec", "exits"):
		p.script.Exec = &Exit{}
		return p.rejectDuplicate("exec", p.readExit(p.script.Exec))
	case p.accept("exec", "hangs"):
		p.script.ExecHangs = true
		return p.rejectDuplicate("exec", p.expectEnd())
	case p.accept("answers"):
		return p.rejectDuplicate("when it answers", p.readDuration("after", &p.script.AnswersAfter))
	case p.accept("stops", "answering"):
		return p.rejectDuplicate("when it stops answering", p.readPositive("after", &p.script.AnswersUntil))
	}
	return "want on TERM exits N after D, ignores TERM, exits N after D, OOM after D, starts after D, " +
		"fails to start, survives KILL for D, stop hangs, exec exits N after D, exec hangs, answers after D, " +
		"or stops answering after D"
}

// accept consumes the words if they come next.
func (p *parser) accept(words ...string) bool {
	if len(p.words) < len(words) {
		return false
	}
	for i, word := range words {
		if p.words[i] != word {
			return false
		}
	}
	p.words = p.words[len(words):]
	return true
}

// rejectDuplicate returns reason if it is set, and otherwise rejects a second clause about the same
// subject.
func (p *parser) rejectDuplicate(about, reason string) string {
	if reason != "" {
		return reason
	}
	if other, ok := p.seen[about]; ok {
		return fmt.Sprintf("%q has already said something about %s", other, about)
	}
	p.seen[about] = p.clause
	return ""
}

// readExit reads "N [after D]".
func (p *parser) readExit(exit *Exit) (reason string) {
	if len(p.words) == 0 {
		return "want an exit code"
	}
	code, err := strconv.ParseUint(p.words[0], 10, 8)
	if err != nil {
		return fmt.Sprintf("exit code %q: want 0 to 255", p.words[0])
	}
	p.words = p.words[1:]
	exit.Code, exit.Reason = int32(code), engine.ReasonFor(int32(code))
	if len(p.words) == 0 {
		return ""
	}
	return p.readDuration("after", &exit.After)
}

// readDuration reads "<word> D", which ends the clause.
func (p *parser) readDuration(word string, d *time.Duration) (reason string) {
	if !p.accept(word) || len(p.words) == 0 {
		return fmt.Sprintf("want %s and a duration", word)
	}
	read, err := time.ParseDuration(p.words[0])
	if err != nil || read < 0 || read > maxDuration {
		return fmt.Sprintf("duration %q: want one from 0s to %v, such as 1m30s", p.words[0], maxDuration)
	}
	*d = read
	p.words = p.words[1:]
	return p.expectEnd()
}

// readPositive reads a duration and rejects 0s.
func (p *parser) readPositive(word string, into *time.Duration) (reason string) {
	reason = p.readDuration(word, into)
	if reason == "" && *into == 0 {
		return "duration \"0s\": want a longer one"
	}
	return reason
}

// expectEnd rejects trailing words.
func (p *parser) expectEnd() (reason string) {
	if len(p.words) > 0 {
		return fmt.Sprintf("%q is one word too many", p.words[0])
	}
	return ""
}

// String returns the script as text for [Parse].
func (s Script) String() string {
	var clauses []string
	if s.OnTerm == nil {
		clauses = append(clauses, "ignores TERM")
	} else {
		clauses = append(clauses, fmt.Sprintf("on TERM exits %d after %v", s.OnTerm.Code, s.OnTerm.After))
	}
	if s.OwnExit != nil && s.OwnExit.Reason == engine.ReasonOOMKilled {
		clauses = append(clauses, fmt.Sprintf("OOM after %v", s.OwnExit.After))
	} else if s.OwnExit != nil {
		clauses = append(clauses, fmt.Sprintf("exits %d after %v", s.OwnExit.Code, s.OwnExit.After))
	}
	if s.StartAfter > 0 {
		clauses = append(clauses, fmt.Sprintf("starts after %v", s.StartAfter))
	}
	if s.FailsToStart {
		clauses = append(clauses, "fails to start")
	}
	if s.SurvivesKill && s.KillTakes > 0 {
		clauses = append(clauses, fmt.Sprintf("survives KILL for %v", s.KillTakes))
	} else if s.SurvivesKill {
		clauses = append(clauses, "survives KILL")
	}
	if s.StopHangs {
		clauses = append(clauses, "stop hangs")
	}
	return strings.Join(clauses, ", ")
}
