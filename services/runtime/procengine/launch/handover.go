package launch

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MountsVariable is where a program finds its volumes when there is no mount namespace: a
// line for each, such as /data=/host/path.
const MountsVariable = "PODFALL_MOUNTS"

// firstVolume is the least descriptor on which a program gets a volume: shells use those
// below ten, and sockets are handed over from 3 on.
const firstVolume = 100

// handOver opens the volumes for a program that sees the machine's own file system, as a
// user who cannot enter the directories that lead to them, and returns the variable that
// says where they are. A descriptor leads to its volume and to nothing beside it, so that no
// directory has to be opened to other users. It is named by the process, whose number the
// program keeps, so that children find the volumes that have closed what they inherited.
func (p Plan) handOver() (string, error) {
	places := make([]string, len(p.Mounts))
	for i, mount := range p.Mounts {
		source, err := openat2(mount.Host, unix.RESOLVE_NO_SYMLINKS)
		if err != nil {
			return "", fmt.Errorf("hand over %s: %w", mount.Container, err)
		}
		kept, err := unix.FcntlInt(source.Fd(), unix.F_DUPFD, firstVolume)
		source.Close()
		if err != nil {
			return "", fmt.Errorf("hand over %s: %w", mount.Container, err)
		}
		places[i] = fmt.Sprintf("%s=/proc/%d/fd/%d", mount.Container, os.Getpid(), kept)
	}
	return MountsVariable + "=" + strings.Join(places, "\n"), nil
}
