package registry

import "github.com/podfall/podfall/proto/kinds"

func defaultTemplates(kinds.Object) {}
