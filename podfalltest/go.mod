module github.com/podfall/podfall/podfalltest

go 1.26.0

replace (
	github.com/podfall/podfall/internal => ../internal
	github.com/podfall/podfall/proto => ../proto
	github.com/podfall/podfall/services/apiserver => ../services/apiserver
	github.com/podfall/podfall/services/bus => ../services/bus
	github.com/podfall/podfall/services/controllers => ../services/controllers
	github.com/podfall/podfall/services/gateway => ../services/gateway
	github.com/podfall/podfall/services/kubelet => ../services/kubelet
	github.com/podfall/podfall/services/runtime => ../services/runtime
)
