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

// AskPath is where podfall's own client asks, who has no other way into the cluster: below
// it each process by its name, with the parameter question, as package mgmt has them. They
// are asked over the management connection, so that a node that is cut off answers too.
const AskPath = "/podfall/processes"

// Asked is the answer to who asks nobody in particular.
type Asked struct {
	// Processes are those that can be asked.
	Processes []string `json:"processes"`
	// Clock is what the cluster's clock shows.
	Clock clock.Schedule `json:"clock"`
}

func (g *gateway) ask(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	process := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, AskPath), "/")
	others := g.others()
	var answer []byte
	var err error
	switch {
	case process == "" && g.cfg.Processes != nil:
		answer, err = json.Marshal(Asked{others, g.cfg.Processes.Clock()})
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
	_, _ = w.Write(answer) // who asked may have gone
	return nil
}
