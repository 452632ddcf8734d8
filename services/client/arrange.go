package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// UsageError is a command line that cannot be read.
type UsageError struct {
	// Command is the command that was named, its parents in front.
	Command string
	Text    string
}

// Error implements error; it says where help is.
func (e *UsageError) Error() string {
	return fmt.Sprintf("%s\nSee 'podfall %s --help' for usage.", e.Text, e.Command)
}

// Misused is a flag's value that cannot be read, in kubectl's words.
func Misused(c *cli.Context, err error, _ bool) error {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "invalid value "); ok {
		value, flag, _ := strings.Cut(rest, " for flag -")
		name, reason, _ := strings.Cut(flag, ": ")
		text = fmt.Sprintf("invalid argument %s for \"--%s\" flag: %s", value, name, reason)
	}
	return &UsageError{Command: nameOf(c), Text: text}
}

// nameOf is the command of a context, its parents in front.
func nameOf(c *cli.Context) string {
	var path []string
	for _, above := range c.Lineage() {
		if above.Command != nil && above.Command.Name != "" && above.App != nil && above.Command.Name != above.App.Name {
			path = append(path, above.Command.Name)
		}
	}
	slices.Reverse(path)
	return strings.Join(path, " ")
}

// Arrange rewrites a command line, without the program's name, so that the flag parser
// can read it: flags may stand anywhere, short ones may be run together ("-wA") and
// joined to their values ("-ojson"), and everything after "--" is an argument. Global
// flags come out first, then the command, its flags in their long form, and the
// arguments. Words are kept as they are when no command is recognized. Errors are
// *UsageError.
func Arrange(globals []cli.Flag, commands []*cli.Command, words []string) ([]string, error) {
	line := arranger{globals: flagTable(globals), words: words}
	named, rest := line.findCommand(commands)
	if named == nil {
		return words, nil
	}
	return line.arrange(named, rest)
}

// flagInfo is what Arrange knows of a flag.
type flagInfo struct {
	name       string // the primary one
	takesValue bool
}

func flagTable(flags []cli.Flag) map[string]flagInfo {
	table := map[string]flagInfo{}
	for _, flag := range flags {
		_, isBool := flag.(*cli.BoolFlag)
		for _, name := range flag.Names() {
			table[name] = flagInfo{name: flag.Names()[0], takesValue: !isBool}
		}
	}
	for _, name := range cli.HelpFlag.Names() {
		table[name] = flagInfo{name: cli.HelpFlag.Names()[0]}
	}
	return table
}

type arranger struct {
	globals map[string]flagInfo
	words   []string
}

// command is a command, its parents' names first.
type command struct {
	path  []string
	flags map[string]flagInfo
}

// findCommand finds the command among the words, and returns the other words. Flags in
// front of it may be its own, so that before it is known a flag takes a value if that is
// what it does for any command.
func (a arranger) findCommand(commands []*cli.Command) (*command, []string) {
	anyones := map[string]flagInfo{}
	for _, c := range commands {
		collectFlags(anyones, c)
	}
	maps.Copy(anyones, a.globals)
	level := commands
	var found *command
	var rest []string
	for i := 0; i < len(a.words); i++ {
		word := a.words[i]
		if word == "--" {
			rest = append(rest, a.words[i:]...)
			break
		}
		if isFlag(word) {
			rest = append(rest, word)
			if wantsNext(anyones, word) && i+1 < len(a.words) {
				i++
				rest = append(rest, a.words[i])
			}
			continue
		}
		if next := lookUp(level, word); next != nil {
			found = found.enter(next)
			level, anyones = next.Subcommands, mergedFlags(anyones, found.flags)
			continue
		}
		if found == nil {
			return nil, nil
		}
		level = nil // an argument: what follows is no subcommand
		rest = append(rest, word)
	}
	return found, rest
}

func collectFlags(into map[string]flagInfo, c *cli.Command) {
	for name, info := range flagTable(c.Flags) {
		if known, ok := into[name]; !ok || !known.takesValue {
			into[name] = info
		}
	}
	for _, sub := range c.Subcommands {
		collectFlags(into, sub)
	}
}

// mergedFlags is base with what a command says of its own flags.
func mergedFlags(base, own map[string]flagInfo) map[string]flagInfo {
	merged := maps.Clone(base)
	maps.Copy(merged, own)
	return merged
}

// enter is c with one more name on its path.
func (c *command) enter(next *cli.Command) *command {
	entered := &command{path: []string{next.Name}, flags: flagTable(next.Flags)}
	if c != nil {
		entered.path = append(append([]string{}, c.path...), next.Name)
		entered.flags = mergedFlags(c.flags, entered.flags)
	}
	return entered
}

func lookUp(commands []*cli.Command, name string) *cli.Command {
	for _, c := range commands {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// isFlag tells a flag from an argument; a lone dash is an argument.
func isFlag(word string) bool { return len(word) > 1 && word[0] == '-' }

// wantsNext reports whether the word after a flag is its value.
func wantsNext(flags map[string]flagInfo, word string) bool {
	if name, ok := strings.CutPrefix(word, "--"); ok {
		return !strings.Contains(name, "=") && flags[name].takesValue
	}
	for i := 1; i < len(word); i++ {
		if flags[word[i:i+1]].takesValue {
			return i == len(word)-1
		}
	}
	return false
}

// arrange sorts the words of a command.
func (a arranger) arrange(named *command, words []string) ([]string, error) {
	var global, own, args []string
	known := mergedFlags(a.globals, named.flags)
	for i := 0; i < len(words); i++ {
		if words[i] == "--" {
			args = append(args, words[i+1:]...)
			break
		}
		if !isFlag(words[i]) {
			args = append(args, words[i])
			continue
		}
		var value *string
		if i+1 < len(words) {
			value = &words[i+1]
		}
		read, used, err := readFlags(known, words[i], value)
		if err != nil {
			return nil, &UsageError{Command: strings.Join(named.path, " "), Text: err.Error()}
		}
		if used {
			i++
		}
		for _, flag := range read {
			kind := &global
			if _, ok := named.flags[flag.name]; ok {
				kind = &own
			}
			*kind = append(*kind, flag.String())
		}
	}
	line := append(global, named.path...)
	line = append(line, own...)
	if len(args) > 0 {
		line = append(append(line, "--"), args...)
	}
	return line, nil
}

// setFlag is a flag as it was set.
type setFlag struct {
	name  string
	value string
	bool  bool
}

// String is the one form that the parser is given.
func (f setFlag) String() string {
	if f.bool && f.value == "" {
		return "--" + f.name
	}
	return "--" + f.name + "=" + f.value
}

// readFlags reads one word of flags; next is the word after it, and used says that it
// was a value.
func readFlags(known map[string]flagInfo, word string, next *string) (read []setFlag, used bool, err error) {
	if strings.HasPrefix(word, "--") {
		return readLong(known, word[2:], next)
	}
	for i := 1; i < len(word); i++ {
		name, rest := word[i:i+1], word[i+1:]
		info, ok := known[name]
		switch {
		case !ok:
			return nil, false, fmt.Errorf("unknown shorthand flag: %q in %s", name[0], word)
		case !info.takesValue && !strings.HasPrefix(rest, "="):
			read = append(read, setFlag{name: info.name, bool: true})
			continue
		case rest != "":
			value := strings.TrimPrefix(rest, "=")
			return append(read, setFlag{name: info.name, value: value}), false, nil
		case next == nil:
			return nil, false, fmt.Errorf("flag needs an argument: %q in %s", name[0], word)
		default:
			return append(read, setFlag{name: info.name, value: *next}), true, nil
		}
	}
	return read, false, nil
}

func readLong(known map[string]flagInfo, text string, next *string) (read []setFlag, used bool, err error) {
	name, value, joined := strings.Cut(text, "=")
	info, ok := known[name]
	switch {
	case !ok || len(name) == 1:
		return nil, false, fmt.Errorf("unknown flag: --%s", name)
	case joined:
		return []setFlag{{name: info.name, value: value}}, false, nil
	case !info.takesValue:
		return []setFlag{{name: info.name, bool: true}}, false, nil
	case next == nil:
		return nil, false, fmt.Errorf("flag needs an argument: --%s", name)
	default:
		return []setFlag{{name: info.name, value: *next}}, true, nil
	}
}
