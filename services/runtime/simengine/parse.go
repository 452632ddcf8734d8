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
const longest = 100 * 365 * 24 * time.Hour

// Parse parses a script: clauses separated by commas, in any order, each at most once. Empty text
// is the default script. Errors are [ClauseError]s.
func Parse(text string) (Script, error) {
	p := parser{script: Default(), said: map[string]string{}}
	if strings.TrimSpace(text) == "" {
		return p.script, nil
	}
	for clause := range strings.SplitSeq(text, ",") {
		p.clause = strings.TrimSpace(clause)
		p.words = strings.Fields(p.clause)
		if reason := p.read(); reason != "" {
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
	said map[string]string
}

// readClause reads one clause into the script. It returns why the clause is invalid, or "".
func (p *parser) read() (reason string) {
	switch {
	case len(p.words) == 0:
		return "it is empty"
	case p.take("on", "TERM", "exits"):
		p.script.OnTerm = &Exit{}
		return p.once("TERM", p.exit(p.script.OnTerm))
	case p.take("ignores", "TERM"):
		p.script.OnTerm = nil
		return p.once("TERM", p.end())
	case p.take("exits"):
		p.script.Own = &Exit{}
		return p.once("its own end", p.exit(p.script.Own))
	case p.take("OOM"):
		p.script.Own = &Exit{Code: engine.ExitKilled, Reason: engine.ReasonOOMKilled}
		return p.once("its own end", p.duration("after", &p.script.Own.After))
	case p.take("starts"):
		return p.once("its start", p.duration("after", &p.script.StartAfter))
	case p.take("fails", "to", "start"):
		p.script.FailsToStart = true
		return p.once("the end of its start", p.end())
	case p.take("survives", "KILL"):
		p.script.SurvivesKill = true
		if len(p.words) == 0 {
			return p.once("KILL", "")
		}
		return p.once("KILL", p.positive("for", &p.script.KillTakes))
	case p.take("stop", "hangs"):
		p.script.StopHangs = true
		return p.once("stop", p.end())
	}
	return p.inside()
}

// readTaskClause reads a clause about exec or network answers of the running container.
func (p *parser) inside() (reason string) {
	switch {
	case p.take("exec", "exits"):
		p.script.Exec = &Exit{}
		return p.once("exec", p.exit(p.script.Exec))
	case p.take("exec", "hangs"):
		p.script.ExecHangs = true
		return p.once("exec", p.end())
	case p.take("answers"):
		return p.once("when it answers", p.duration("after", &p.script.AnswersAfter))
	case p.take("stops", "answering"):
		return p.once("when it stops answering", p.positive("after", &p.script.AnswersUntil))
	}
	return "want on TERM exits N after D, ignores TERM, exits N after D, OOM after D, starts after D, " +
		"fails to start, survives KILL for D, stop hangs, exec exits N after D, exec hangs, answers after D, " +
		"or stops answering after D"
}

// accept consumes the words if they come next.
func (p *parser) take(words ...string) bool {
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
func (p *parser) once(about, reason string) string {
	if reason != "" {
		return reason
	}
	if other, ok := p.said[about]; ok {
		return fmt.Sprintf("%q has already said something about %s", other, about)
	}
	p.said[about] = p.clause
	return ""
}

// readExit reads "N [after D]".
func (p *parser) exit(exit *Exit) (reason string) {
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
	return p.duration("after", &exit.After)
}

// readDuration reads "<word> D", which ends the clause.
func (p *parser) duration(word string, d *time.Duration) (reason string) {
	if !p.take(word) || len(p.words) == 0 {
		return fmt.Sprintf("want %s and a duration", word)
	}
	read, err := time.ParseDuration(p.words[0])
	if err != nil || read < 0 || read > longest {
		return fmt.Sprintf("duration %q: want one from 0s to %v, such as 1m30s", p.words[0], longest)
	}
	*d = read
	p.words = p.words[1:]
	return p.end()
}

// readPositive reads a duration and rejects 0s.
func (p *parser) positive(word string, into *time.Duration) (reason string) {
	reason = p.duration(word, into)
	if reason == "" && *into == 0 {
		return "duration \"0s\": want a longer one"
	}
	return reason
}

// expectEnd rejects trailing words.
func (p *parser) end() (reason string) {
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
	if s.Own != nil && s.Own.Reason == engine.ReasonOOMKilled {
		clauses = append(clauses, fmt.Sprintf("OOM after %v", s.Own.After))
	} else if s.Own != nil {
		clauses = append(clauses, fmt.Sprintf("exits %d after %v", s.Own.Code, s.Own.After))
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
