module github.com/podfall/podfall/services/gateway

go 1.26.0

replace (
	github.com/podfall/podfall/internal => ../../internal
	github.com/podfall/podfall/proto => ../../proto
)
