package propagate_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/runtime/propagate"
)

type tenantKey struct{}

// runtime.Open refuses what no context could carry.
func TestCheckOfValues(t *testing.T) {
	for want, p := range map[string]propagate.Propagator{
		"":                            propagate.Value[string]("tenant", tenantKey{}),
		"the name is empty":           propagate.Value[string]("", tenantKey{}),
		`the key of value "a" is nil`: propagate.Value[string]("a", nil),
		`of type []int, which cannot`: propagate.Value[string]("a", []int{1}),
	} {
		err := p.(interface{ Check() error }).Check()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
