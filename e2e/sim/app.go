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

// scriptOf is what a container that is created so does.
func scriptOf(request *proto.CreateContainerRequest) (simengine.Script, error) {
	if request.GetScript() != "" {
		return simengine.Parse(request.GetScript())
	}
	app, err := ParseApp(request.GetArgs())
	return app.script(), err
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
		script.Own = exit(a.Runs)
	}
	return script
}
