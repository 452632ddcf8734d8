package sim

import (
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/simengine"
)

// scriptAnnotation + a container's name says how its application behaves, in the language
// of package simengine; without it the container's arguments do, as an [App].
const scriptAnnotation = "script.podfall.io/"

// scriptOf is what a container does that is created so, at a time.
func scriptOf(request *proto.CreateContainerRequest, created time.Time) (simengine.Script, error) {
	app, err := ParseApp(request.GetArgs())
	if err != nil {
		return simengine.Script{}, err
	}
	app.Code = app.codeOf(created)
	if request.GetScript() == "" {
		return app.script(), nil
	}
	script, err := simengine.Parse(request.GetScript())
	if app.Fails > 0 && script.OwnExit != nil {
		script.OwnExit = app.script().OwnExit
	}
	return script, err
}

// codeOf is the exit code of a container that was created at a time: whether it fails, and how,
// goes by the second, so that a life that is shrunk keeps it.
func (a App) codeOf(created time.Time) int32 {
	draw := mix(uint64(created.Unix()), "exit code", uint64(a.Fails))
	if draw%100 >= uint64(a.Fails) {
		return a.Code
	}
	return []int32{codeFails, codeFails, codeIgnored, codeFatal}[draw/100%4]
}

func (a App) script() simengine.Script {
	exit := func(after time.Duration) *simengine.Exit {
		return &simengine.Exit{Code: a.Code, After: after, Reason: engine.ReasonFor(a.Code)}
	}
	var script simengine.Script
	if !a.IgnoresTerm {
		script.OnTerm = exit(a.Stops)
	}
	if a.Runs > 0 {
		script.OwnExit = exit(a.Runs)
	}
	return script
}
