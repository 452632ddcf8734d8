package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/clock"
)

// AskPath is where podfall's own client asks processes: it has no other access to the cluster.
// Below it is each process by its name, with the parameter question of package mgmt. The answers
// come over the management connection, so that a disconnected node answers too.
const AskPath = "/podfall/processes"

// ProcessList is the answer without a process's name.
type ProcessList struct {
	// Processes are those that can be asked.
	Processes []string `json:"processes"`
	// Clock is the cluster's clock.
	Clock clock.Schedule `json:"clock"`
}

func (g *gateway) serveAsk(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	process := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, AskPath), "/")
	others := g.otherProcesses()
	var answer []byte
	var err error
	switch {
	case process == "" && g.cfg.Processes != nil:
		answer, err = json.Marshal(ProcessList{others, g.cfg.Processes.Clock()})
	case process == "" || !slices.Contains(others, process):
		return apierrors.NewNotFound(schema.GroupResource{Resource: "processes"}, process)
	default:
		ctx, cancel := clock.Clock{}.Timeout(r.Context(), nodeTimeout)
		defer cancel()
		if answer, err = g.cfg.Processes.Ask(ctx, process, r.URL.Query().Get("question")); err != nil {
			err = apierrors.NewServiceUnavailable(err.Error())
		}
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client may have left
	return nil
}
