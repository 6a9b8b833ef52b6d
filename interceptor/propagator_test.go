package interceptor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/interceptor"
)

type tenantKey struct{}

// runtime.Open refuses propagators without a name or a key, or with a type that cannot be encoded.
func TestCheckOfValues(t *testing.T) {
	for want, p := range map[string]interceptor.Propagator{
		"":                            interceptor.PropagateValue[string]("tenant", tenantKey{}),
		"the name is empty":           interceptor.PropagateValue[string]("", tenantKey{}),
		`the key of value "a" is nil`: interceptor.PropagateValue[string]("a", nil),
		`of type []int, which cannot`: interceptor.PropagateValue[string]("a", []int{1}),
	} {
		err := p.(interface{ Check() error }).Check()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
