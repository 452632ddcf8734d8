package controllers

import (
	"github.com/podfall/podfall/services/controllers/attachdetach"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/disruption"
	"github.com/podfall/podfall/services/controllers/endpointslice"
	"github.com/podfall/podfall/services/controllers/ephemeralvolume"
	"github.com/podfall/podfall/services/controllers/explain"
	"github.com/podfall/podfall/services/controllers/garbage"
	"github.com/podfall/podfall/services/controllers/namespace"
	"github.com/podfall/podfall/services/controllers/nodelifecycle"
	"github.com/podfall/podfall/services/controllers/persistentvolume"
	"github.com/podfall/podfall/services/controllers/podgc"
	"github.com/podfall/podfall/services/controllers/rootca"
	"github.com/podfall/podfall/services/controllers/scheduler"
	"github.com/podfall/podfall/services/controllers/serviceaccount"
	"github.com/podfall/podfall/services/controllers/tainteviction"
	"github.com/podfall/podfall/services/controllers/volumeprotection"
)

// cluster lists the controllers that look after what workloads stand on: nodes, namespaces,
// volumes, budgets, endpoints and what is left over.
func cluster() []row {
	return []row{
		{"ephemeral-volume-controller", "ephemeral-volume", func(base control.Base) control.Controller { return ephemeralvolume.New(base) }},
		{"persistentvolume-attach-detach-controller", "attachdetach", func(base control.Base) control.Controller { return attachdetach.New(base) }},
		{"disruption-controller", "disruption", func(base control.Base) control.Controller { return disruption.New(base) }},
		{"endpoints-controller", "endpoint", func(base control.Base) control.Controller { return endpointslice.NewEndpoints(base) }},
		{"endpointslice-controller", "endpointslice", func(base control.Base) control.Controller { return endpointslice.New(base) }},
		{"explain-controller", "explain", func(base control.Base) control.Controller { return explain.New(base) }},
		{"garbage-collector-controller", "garbagecollector", func(base control.Base) control.Controller { return garbage.New(base) }},
		{"namespace-controller", "namespace", func(base control.Base) control.Controller { return namespace.New(base) }},
		{"node-lifecycle-controller", "nodelifecycle", func(base control.Base) control.Controller { return nodelifecycle.New(base) }},
		{"persistentvolume-binder-controller", "persistentvolume-binder", func(base control.Base) control.Controller { return persistentvolume.New(base) }},
		{"persistentvolume-protection-controller", "pv-protection", func(base control.Base) control.Controller { return volumeprotection.NewVolumes(base) }},
		{"persistentvolumeclaim-protection-controller", "pvc-protection", func(base control.Base) control.Controller { return volumeprotection.NewClaims(base) }},
		{"pod-garbage-collector-controller", "podgc", func(base control.Base) control.Controller { return podgc.New(base) }},
		{"root-ca-certificate-publisher-controller", "root-ca-cert-publisher", func(base control.Base) control.Controller { return rootca.New(base) }},
		{"scheduler", "kube-scheduler", func(base control.Base) control.Controller { return scheduler.New(base) }},
		{"serviceaccount-controller", "serviceaccount", func(base control.Base) control.Controller { return serviceaccount.New(base) }},
		{"taint-eviction-controller", "tainteviction", func(base control.Base) control.Controller { return tainteviction.New(base) }},
	}
}
