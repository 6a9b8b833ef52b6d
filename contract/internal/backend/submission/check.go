package submission

import (
	"context"
	"fmt"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// checkFlow refuses a flow with a construct that the server's library lacks. The tags are the tags of the flow and the
// run. The error wraps engine.ErrNotInContract and names the node and the construct.
func (c *Submitter) checkFlow(ctx context.Context, g *flowgraph.Graph, tags []enginerpc.SubmitTag) error {
	for _, tag := range tags {
		if strings.HasPrefix(tag.Name, contractnode.Tags) {
			return fmt.Errorf("flow %s: %w", g.Name, contractcheck.Refused(reservedTag(tag.Name)))
		}
	}
	for i := range g.Nodes {
		for name := range g.Nodes[i].Tags {
			if strings.HasPrefix(name, contractnode.Tags) {
				return contractcheck.RefusedNode(g.Name, g.Nodes[i].Name, reservedTag(name))
			}
		}
	}
	if err := contractcheck.Check(g); err != nil {
		return err
	}
	node, construct := contractcheck.Extension(g)
	if construct == "" {
		return nil
	}
	if extended, err := c.IsExtended(ctx); err != nil || extended {
		return err
	}
	return contractcheck.RefusedNode(g.Name, node, construct)
}

func reservedTag(name string) string {
	return fmt.Sprintf("tag %q (tags that begin with %s are its own)", name, contractnode.Tags)
}
