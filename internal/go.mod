module github.com/podfall/podfall/internal

go 1.26

replace github.com/podfall/podfall/proto => ../proto
