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
		NameOpCall:         as[OpCall],
		NameOpReturn:       as[OpReturn],
		NameConsulted:      as[Consulted],
		NameCommit:         as[Commit],
		NameFsync:          as[Fsync],
		NameCompact:        as[Compact],
		NameStoreError:     as[StoreError],
		NameStoreOpen:      as[StoreOpen],
		NameWatchOpen:      as[WatchOpen],
		NameWatchEvent:     as[WatchEvent],
		NameWatchEnd:       as[WatchEnd],
		NameKubeletBoot:    as[KubeletBoot],
		NameKubeletStop:    as[KubeletStop],
		NameKubeletSee:     as[KubeletSee],
		NameKubeletTerm:    as[KubeletTerm],
		NameKubeletStuck:   as[KubeletStuck],
		NameKubeletStatus:  as[KubeletStatus],
		NameKubeletFinal:   as[KubeletFinal],
		NameKubeletForget:  as[KubeletForget],
		NameCreate:         as[Create],
		NameStart:          as[Start],
		NameTakeUp:         as[TakeUp],
		NameProcess:        as[Process],
		NamePostStartBegin: as[PostStartBegin],
		NamePostStartEnd:   as[PostStartEnd],
		NamePreStopBegin:   as[PreStopBegin],
		NamePreStopEnd:     as[PreStopEnd],
		NameSignaling:      as[Signaling],
		NameSignal:         as[Signal],
		NameExit:           as[Exit],
		NameRemove:         as[Remove],
		NameSandboxStop:    as[SandboxStop],
		NameSandboxRemove:  as[SandboxRemove],
		NameMount:          as[Mount],
		NameUnmount:        as[Unmount],
		NameDecide:         as[Decide],
		NameLease:          as[Lease],
		NameReady:          as[Ready],
		NameFaultBegin:     as[FaultBegin],
		NameFaultEnd:       as[FaultEnd],
		NameFaultHit:       as[FaultHit],
		NameFaultWatch:     as[FaultWatch],
		NameWindow:         as[Window],
		NameBlocker:        as[Blocker],
		NameLost:           as[Lost],
		NameStall:          as[Stall],
		NameLookup:         as[Lookup],
		NameRefused:        as[Refused],
		NameTook:           as[Took],
		NameCopied:         as[Copied],
	}
}

func as[T Fact](data []byte) (Fact, error) {
	var fact T
	err := json.Unmarshal(data, &fact)
	return fact, err
}
