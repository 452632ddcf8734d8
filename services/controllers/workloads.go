package controllers

import (
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/cronjob"
	"github.com/podfall/podfall/services/controllers/daemonset"
	"github.com/podfall/podfall/services/controllers/deployment"
	"github.com/podfall/podfall/services/controllers/job"
	"github.com/podfall/podfall/services/controllers/replicaset"
	"github.com/podfall/podfall/services/controllers/replication"
	"github.com/podfall/podfall/services/controllers/statefulset"
	"github.com/podfall/podfall/services/controllers/ttl"
)

// workloadRows lists the controllers that create pods.
func workloadRows() []row {
	return []row{
		{"cronjob-controller", "cronjob", func(base control.Base) control.Controller { return cronjob.New(base) }},
		{"daemonset-controller", "daemonset", func(base control.Base) control.Controller { return daemonset.New(base) }},
		{"deployment-controller", "deployment", func(base control.Base) control.Controller { return deployment.New(base) }},
		{"job-controller", "job", func(base control.Base) control.Controller { return job.New(base) }},
		{"replicaset-controller", "replicaset", func(base control.Base) control.Controller { return replicaset.New(base) }},
		{"replicationcontroller-controller", "replicationcontroller", func(base control.Base) control.Controller { return replication.New(base) }},
		{"statefulset-controller", "statefulset", func(base control.Base) control.Controller { return statefulset.New(base) }},
		{"ttl-after-finished-controller", "ttl-after-finished", func(base control.Base) control.Controller { return ttl.New(base) }},
	}
}
