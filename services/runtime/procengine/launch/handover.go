package launch

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// MountsVariable tells a program without a mount namespace where its volumes are: one line each,
// for example /data=/host/path.
const MountsVariable = "PODFALL_MOUNTS"

// firstVolume is the lowest descriptor for volumes. Shells use those below ten, and sockets are
// passed from 3 on.
const firstVolume = 100

// passVolumes opens the volumes of a program that sees the machine's own file system. The program's
// user cannot enter the directories that lead to the volumes. passVolumes returns the variable that
// names them. A descriptor leads to its volume and nothing else, so no directory must be opened to
// other users. The path names the process, which keeps its PID, so that children that closed their
// inherited descriptors find the volumes too.
func (p Plan) passVolumes() (string, error) {
	places := make([]string, len(p.Mounts))
	for i, mount := range p.Mounts {
		source, err := openPath(mount.Host, unix.RESOLVE_NO_SYMLINKS)
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
