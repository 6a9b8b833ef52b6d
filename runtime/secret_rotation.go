package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// defaultSecretGrace is what RotateSecrets takes for 0.
const defaultSecretGrace = 7 * 24 * time.Hour

// SecretRotation is what has become of a RotateSecrets.
type SecretRotation struct {
	// KID is the id of the secret that is current now.
	KID string
	// Rotated counts the partitions that sign with it since this call, Unchanged those that did before.
	Rotated, Unchanged int
	// Failed are the partitions that still sign with another one, and why.
	Failed map[enginecore.Partition]error
}

// RotateSecrets makes another secret the one that tokens are signed with, in every partition:
// OpenConfig.WaitpointSecret, or a new random one. Tokens that were signed with the one before stay valid for the grace
// time, 0 for 7 days. The secret is that of all namespaces, and so are the tokens that a short grace makes invalid: it
// is for operators.
//
// Where partitions fail, the error says so and SecretRotation.Failed lists them; call again to go on. What has been
// rotated stays as it is then, with a WaitpointSecret from any process, otherwise from this engine.
func (e *Engine) RotateSecrets(ctx context.Context, grace time.Duration) (SecretRotation, error) {
	if err := e.open(); err != nil {
		return SecretRotation{}, err
	}
	if grace < 0 {
		return SecretRotation{}, fmt.Errorf("rotate secrets: %w", invalid("grace %s: must not be negative", grace))
	}
	if grace == 0 {
		grace = defaultSecretGrace
	}
	kid, done, err := e.session.Secrets.Rotate(ctx, grace)
	return SecretRotation{KID: kid, Rotated: done.Rotated, Unchanged: done.Unchanged, Failed: done.Failed}, err
}
