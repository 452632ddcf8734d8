package guarantees

import "github.com/podfall/podfall/internal/history"

// device is what nodes call the volume v.
const device = "kubernetes.io/csi/disk.example.com^v"

func volumeV(op string) history.Commit {
	return history.Commit{Resource: volumeResource, Key: "v", UID: "uid of v", Op: op, Content: history.Content{Attachments: history.Attachments{Device: device}}}
}

// attachmentTo is one of v to a node.
func attachmentTo(host, op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: attachmentResource, Key: "v-" + host, UID: "uid of v-" + host, Op: op}
	c.Volume, c.Host = "v", host
	for _, f := range change {
		f(&c)
	}
	return c
}

func attached(c *history.Commit)    { c.Attached = true }
func outService(c *history.Commit)  { c.OutOfService = true }
func notReady(c *history.Commit)    { c.Ready = false }
func sharedByAll(c *history.Commit) { c.Shared = true }

// nodeAs is the node n1, which is well unless a change says otherwise.
func nodeAs(op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: nodeResource, Key: "n1", UID: "uid of n1", Op: op}
	c.Ready = true
	for _, f := range change {
		f(&c)
	}
	return c
}

// asks is a request of one of these for any object.
func asks(who, verb string, c history.Commit) history.OpCall {
	return history.OpCall{Identity: who, Verb: verb, Resource: c.Resource, Key: c.Key}
}

// attach has the controllers attach v to a node.
func (f *forge) attach(host string) *forge {
	made, there := attachmentTo(host, added), attachmentTo(host, modified, attached)
	f.ask("attach "+host, asks(controllers, "create", made), 201, made)
	return f.ask("attached "+host, asks(controllers, "update", there), 200, there)
}

// detach has somebody detach it from n1.
func (f *forge) detach(who string) *forge {
	const host = "n1"
	going := attachmentTo(host, modified, attached, marked(0, f.clock+2))
	f.ask("detach "+host, asks(who, "delete", going), 200, going)
	gone := attachmentTo(host, deleted, marked(0, f.clock+2))
	return f.ask("detached "+host, asks(controllers, "update", gone), 200, gone)
}

// mount is that of v for a pod on a node.
func (f *forge) mount(uid, host string) *forge {
	return f.say("kubelet/"+host, "", history.Mount{UID: uid, Volume: "data", Device: device})
}

// disk is a pod that runs on n1, and the volume v that is attached there.
func disk() *forge {
	f := newForge()
	f.ask("node", asks(node, "create", nodeAs(added)), 201, nodeAs(added))
	f.run().ask("volume", asks(user, "create", volumeV(added)), 201, volumeV(added))
	return f.attach("n1")
}

// node is what is said of n1.
func (f *forge) becomes(op string, change ...func(*history.Commit)) *forge {
	return f.ask("n1 at "+formatRevision(f.clock), asks(controllers, "update", nodeAs(op)), 200, nodeAs(op, change...))
}

// lostDisk has v mounted on n1 when its pod is forced away.
func lostDisk() *forge {
	f := disk().mount(uid, "n1")
	return f.ask("force", by(user, "delete", grace(0)), 200, web(modified, marked(0, f.clock+2)), web(deleted, marked(0, f.clock+2)))
}

// elsewhere has v attached to n2 and mounted by a pod there.
func (f *forge) elsewhere() *forge {
	other := called("default/other", "u2")
	f.ask("create other", by(user, "create", func(o *history.OpCall) { o.Key = "default/other" }), 201, web(added, pending, other))
	f.ask("bind other", by(controllers, "create"), 201, web(modified, other, func(c *history.Commit) { c.Node, c.Phase = "n2", "Pending" }))
	return f.attach("n2").mount("u2", "n2")
}

// disks are histories that keep K16.
func disks() map[string]*forge {
	orderly := disk().mount(uid, "n1").mark().signal("SIGTERM").exit()
	orderly.say(kubelet, "", history.Unmount{UID: uid, Volume: "data"}).told().remove().detach(controllers).elsewhere()
	shared := disk()
	shared.ask("share", asks(user, "update", volumeV(modified)), 200, func() history.Commit { c := volumeV(modified); sharedByAll(&c); return c }())
	return map[string]*forge{
		"attached disk": orderly, "shared disk": shared.mount(uid, "n1").elsewhere(),
		"disk of a silent node":       lostDisk().becomes(modified, notReady).wait(360).detach(controllers).elsewhere(),
		"disk of one that came back":  lostDisk().becomes(modified, notReady).wait(360).becomes(modified).detach(controllers).elsewhere(),
		"disk of one out of service":  lostDisk().becomes(modified, outService).detach(controllers).elsewhere(),
		"disk of a node that is gone": lostDisk().becomes(deleted).detach(controllers).elsewhere(),
		"disk of before the history":  newForge().run().mount(uid, "n1").idles(30),
		"disk detached by hand":       disk().mount(uid, "n1").detach(user),
	}
}

func brokenDisks() []forged {
	unattached := newForge().run().ask("volume", asks(user, "create", volumeV(added)), 201, volumeV(added))
	asked := attachmentTo("n1", added)
	unattached.ask("attach", asks(controllers, "create", asked), 201, asked).mount(uid, "n1")
	inUse := disk().mount(uid, "n1").becomes(modified, notReady).wait(400)
	return []forged{
		{"K16", "a volume on two nodes", disk().attach("n2")},
		{"K16", "a volume that is taken from a node that is well", lostDisk().wait(400).detach(controllers)},
		{"K16", "a volume that is taken from a silent node too early", lostDisk().becomes(modified, notReady).wait(300).detach(controllers)},
		{"K16", "a volume that is taken from a silent node whose pod is there", inUse.detach(controllers)},
		{"K16", "a volume that is taken from a node that was out of service long ago", lostDisk().becomes(modified, outService).becomes(modified).wait(150).detach(controllers)},
		{"K16", "a mount of what is not attached yet", unattached},
		{"K16", "a mount of what is attached elsewhere", disk().mount(uid, "n1").detach(user).elsewhere()},
	}
}
