package admin

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/auditlink"
)

// Secret is a secret that signs the tokens of waitpoints.
type Secret struct {
	// KID is the id of the secret: not empty, without ':'.
	KID string
	// Hex is the secret in hexadecimal, an even number of digits.
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

// SecretRotation is the result of RotateSecret.
type SecretRotation struct {
	// Rotated is the number of partitions that this call changed, Unchanged the number that used the secret before.
	Rotated, Unchanged int
	// Failed has the tags of the partitions that still use another secret, such as {fp:7}, with the error of each.
	Failed map[string]error
}

// RotateSecret makes a secret the one that signs tokens, in every partition, each in a separate atomic step. Tokens
// signed with the previous secret stay valid for the grace time.
//
// When partitions fail, the error wraps the error of the first one, and SecretRotation.Failed lists all; repeat the
// call with the same secret to continue. A secret id that is known with another secret is refused with
// enginecore.ErrRotationConflict.
func (c *Client) RotateSecret(ctx context.Context, secret Secret, grace time.Duration) (SecretRotation, error) {
	if grace < 0 {
		return SecretRotation{}, fault("grace", "%s is negative", grace)
	}
	if err := secret.check(); err != nil {
		return SecretRotation{}, err
	}
	var rotation SecretRotation
	err := c.audited(ctx, auditlink.RotateSecrets, secret.KID, grace.String(), func() error {
		changed, err := c.core.RotateSecret(ctx, secret.KID, secret.Hex, grace)
		rotation = SecretRotation(changed)
		return err
	})
	return rotation, err
}
