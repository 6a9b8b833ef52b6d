package explain

import (
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// Upstreams completes the explanation of a node that waits for its upstreams. succeeded and ended tell of an upstream
// by its name how it stands.
func Upstreams(
	e fabrictype.Explanation, spec *flowgraph.Node, succeeded, ended func(string) bool,
) fabrictype.Explanation {
	needed := max(1, spec.Join.Needed)
	for _, up := range spec.Upstreams {
		switch {
		case !ended(up.Node):
			e.Names = append(e.Names, up.Node)
		case succeeded(up.Node):
			needed--
		}
	}
	if len(e.Names) == 0 {
		e.Reason, e.Sentence = waitreason.Settling, "waits for what its upstreams have told"
		return e
	}
	if !spec.Join.Policy.Tolerates() {
		e.Sentence = "waits for " + listed(e.Names)
		return e
	}
	e.Reason, e.Need = waitreason.Join, max(0, needed)
	e.Sentence = fmt.Sprintf("waits for %d of %s", e.Need, listed(e.Names))
	return e
}

// listed joins names and cuts long lists short.
func listed(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
