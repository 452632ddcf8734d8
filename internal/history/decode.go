package history

import "encoding/json"

// decode decodes the fact of an event by its name. Unknown names become an Other.
func decode(name Name, data []byte) (Fact, error) {
	read := decoders()[name]
	if read == nil {
		return Other{name, data}, nil
	}
	return read(data)
}

// decoders maps each event name to its decoder.
func decoders() map[Name]func([]byte) (Fact, error) {
	return map[Name]func([]byte) (Fact, error){
		NameOpCall:         decodeAs[OpCall],
		NameOpReturn:       decodeAs[OpReturn],
		NameWebhookCall:    decodeAs[WebhookCall],
		NameCommit:         decodeAs[Commit],
		NameFsync:          decodeAs[Fsync],
		NameCompact:        decodeAs[Compact],
		NameStoreError:     decodeAs[StoreError],
		NameStoreOpen:      decodeAs[StoreOpen],
		NameWatchOpen:      decodeAs[WatchOpen],
		NameWatchEvent:     decodeAs[WatchEvent],
		NameWatchEnd:       decodeAs[WatchEnd],
		NameKubeletBoot:    decodeAs[KubeletBoot],
		NameKubeletStop:    decodeAs[KubeletStop],
		NameKubeletSee:     decodeAs[KubeletSee],
		NameKubeletTerm:    decodeAs[KubeletTerm],
		NameKubeletStuck:   decodeAs[KubeletStuck],
		NameKubeletStatus:  decodeAs[KubeletStatus],
		NameKubeletFinal:   decodeAs[KubeletFinal],
		NameKubeletForget:  decodeAs[KubeletForget],
		NameCreate:         decodeAs[Create],
		NameStart:          decodeAs[Start],
		NameRecover:        decodeAs[Recover],
		NameProcess:        decodeAs[Process],
		NamePostStartBegin: decodeAs[PostStartBegin],
		NamePostStartEnd:   decodeAs[PostStartEnd],
		NamePreStopBegin:   decodeAs[PreStopBegin],
		NamePreStopEnd:     decodeAs[PreStopEnd],
		NameSignaling:      decodeAs[Signaling],
		NameSignal:         decodeAs[Signal],
		NameExit:           decodeAs[Exit],
		NameRemove:         decodeAs[Remove],
		NameSandboxStop:    decodeAs[SandboxStop],
		NameSandboxRemove:  decodeAs[SandboxRemove],
		NameMount:          decodeAs[Mount],
		NameUnmount:        decodeAs[Unmount],
		NameDecide:         decodeAs[Decide],
		NameLease:          decodeAs[Lease],
		NameReady:          decodeAs[Ready],
		NameFaultBegin:     decodeAs[FaultBegin],
		NameFaultEnd:       decodeAs[FaultEnd],
		NameFaultTrigger:   decodeAs[FaultTrigger],
		NameFaultWatch:     decodeAs[FaultWatch],
		NameWindow:         decodeAs[Window],
		NameBlocker:        decodeAs[Blocker],
		NameLostEvents:     decodeAs[LostEvents],
		NameStall:          decodeAs[Stall],
		NameOpRead:         decodeAs[OpRead],
		NameOpRefused:      decodeAs[OpRefused],
		NameWatchDelivery:  decodeAs[WatchDelivery],
		NameRelist:         decodeAs[Relist],
	}
}

func decodeAs[T Fact](data []byte) (Fact, error) {
	var fact T
	err := json.Unmarshal(data, &fact)
	return fact, err
}
