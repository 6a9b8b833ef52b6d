package admin

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
)

func checkSecret(s enginecore.WaitpointSecret) error {
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

// RotateSecret makes a secret the one that signs tokens, in every partition, each in a separate atomic step. Tokens
// signed with the previous secret stay valid for the grace time. The secret must be set; since other programs may have
// chosen it, its KID may be any text without ':', and it may have any even number of digits.
//
// When partitions fail, the error wraps the error of the first one, and Failed of the result lists all; repeat the
// call with the same secret to continue. A secret id that is known with another secret is refused with
// enginecore.ErrRotationConflict.
func (c *Client) RotateSecret(
	ctx context.Context, secret enginecore.WaitpointSecret, grace time.Duration,
) (enginecore.SecretRotation, error) {
	if grace < 0 {
		return enginecore.SecretRotation{}, fault("grace", "%s is negative", grace)
	}
	if err := checkSecret(secret); err != nil {
		return enginecore.SecretRotation{}, err
	}
	var rotation enginecore.SecretRotation
	err := c.audited(ctx, auditlink.RotateSecrets, secret.KID, grace.String(), func() error {
		changed, err := c.core.RotateSecret(ctx, secret.KID, secret.Hex, grace)
		rotation = enginecore.SecretRotation{
			KID: secret.KID, Rotated: changed.Rotated, Unchanged: changed.Unchanged, Failed: changed.Failed,
		}
		return err
	})
	return rotation, err
}
