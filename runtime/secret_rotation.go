package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// DefaultSecretGrace is what RotateSecrets takes for 0.
const DefaultSecretGrace = 7 * 24 * time.Hour

// WaitpointSecret is what the tokens of waitpoints are signed with: an id, 1 to 32 characters out of a-z, 0-9 and '-', and
// 16 to 64 random bytes in hex. It is stored, for each partition, when a waitpoint is opened there for the first time, and
// by Engine.RotateSecrets. Without it, a random secret is made; so only one who can read the engine's data can make tokens.
func WaitpointSecret(kid, secretHex string) OpenOption {
	return func(c *openConfig) { c.secret = &engine.WaitpointSecret{KeyID: kid, Hex: secretHex} }
}

// SecretRotation is what has become of a RotateSecrets.
type SecretRotation struct {
	// KID is the id of the secret that is current now.
	KID string
	// Rotated counts the partitions that sign with it since this call, Unchanged those that did before.
	Rotated, Unchanged int
	// Failed are the partitions that still sign with another one, and why.
	Failed map[enginecore.Partition]error
}

// RotateSecrets makes another secret the one that tokens are signed with, in every partition: the WaitpointSecret of Open,
// or a new random one. Tokens that were signed with the one before stay valid for the grace time, 0 for DefaultSecretGrace.
// The secret is that of all namespaces, and so are the tokens that a short grace makes invalid: it is for operators.
//
// Where partitions fail, the error says so and Rotation.Failed lists them; call again to go on. What has been rotated stays
// as it is then, with a WaitpointSecret from any process, otherwise from this engine.
func (e *Engine) RotateSecrets(ctx context.Context, grace time.Duration) (SecretRotation, error) {
	if err := e.open(); err != nil {
		return SecretRotation{}, err
	}
	if grace < 0 {
		return SecretRotation{}, fmt.Errorf("rotate secrets: grace %s: must not be negative", grace)
	}
	if grace == 0 {
		grace = DefaultSecretGrace
	}
	kid, done, err := e.session.Secrets.Rotate(ctx, grace)
	return SecretRotation{KID: kid, Rotated: done.Rotated, Unchanged: done.Unchanged, Failed: done.Failed}, err
}
