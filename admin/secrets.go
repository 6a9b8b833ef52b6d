package admin

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Secret is what the tokens of waitpoints are signed with.
type Secret struct {
	// KID is its id: not empty, without ':'.
	KID string
	// Hex is the secret, an even number of hex digits.
	Hex string
}

func (s Secret) check() error {
	switch {
	case s.KID == "" || strings.Contains(s.KID, ":"):
		return fault("kid", "%.40q must not be empty or contain a colon", s.KID)
	case s.Hex == "":
		return fault("secret", "must not be empty")
	}
	if _, err := hex.DecodeString(s.Hex); err != nil {
		return fault("secret", "is not hex") // err shows parts of it
	}
	return nil
}

// SecretRotation is what has become of a rotation.
type SecretRotation struct {
	// Rotated counts the partitions that sign with the secret since this call, Unchanged those that did before.
	Rotated, Unchanged int
	// Failed are the partitions that still sign with another one, and why.
	Failed map[enginecore.Partition]error
}

// RotateSecret makes a secret the one that tokens are signed with, in every partition, each in an atomic step of its
// own. Tokens that were signed with the one before stay valid for the grace time.
//
// Where partitions fail, the error wraps the first one's, and SecretRotation.Failed lists them; call again with the
// same secret to go on. A secret id that is known with another secret is refused: enginecore.ErrRotationConflict.
func (c *Client) RotateSecret(ctx context.Context, secret Secret, grace time.Duration) (SecretRotation, error) {
	if grace < 0 {
		return SecretRotation{}, fault("grace", "%s is negative", grace)
	}
	if err := secret.check(); err != nil {
		return SecretRotation{}, err
	}
	rotation, err := c.core.RotateSecret(ctx, secret.KID, secret.Hex, grace)
	return SecretRotation(rotation), err
}
