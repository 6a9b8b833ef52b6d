package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
)

// defaultSecretGrace is the grace of RotateSecrets for 0.
const defaultSecretGrace = 7 * 24 * time.Hour

// RotateSecrets replaces the secret that signs tokens, in every partition, by OpenConfig.WaitpointSecret or, if that is
// zero, by a new random one. Tokens signed with the previous secret stay valid for the grace time; 0 means 7 days. All
// namespaces share the secret, so a short grace time invalidates tokens of all of them.
//
// When partitions fail, RotateSecrets returns an error and lists them in the Failed of its result; call it again to
// continue. Partitions that were rotated are not rotated again: with a WaitpointSecret from any process, otherwise only
// from this Engine.
func (e *Engine) RotateSecrets(
	ctx context.Context, grace time.Duration, opts ...ActionOption,
) (enginecore.SecretRotation, error) {
	if err := e.ready(ctx); err != nil {
		return enginecore.SecretRotation{}, err
	}
	if grace < 0 {
		return enginecore.SecretRotation{}, fmt.Errorf("rotate secrets: %w",
			invalid("grace %s: must not be negative", grace))
	}
	if grace == 0 {
		grace = defaultSecretGrace
	}
	by, err := (&Client{}).actionOf(opts)
	if err != nil {
		return enginecore.SecretRotation{}, fmt.Errorf("rotate secrets: %w", err)
	}
	var result enginecore.SecretRotation
	entry := fabrictype.AuditEntry{Actor: by.actor, Action: auditlink.RotateSecrets, Detail: "grace " + grace.String()}
	err = e.session.Audited(ctx, entry, func(ctx context.Context) error {
		kid, done, err := e.session.Secrets.Rotate(ctx, grace)
		result = enginecore.SecretRotation{
			KID: kid, Rotated: done.Rotated, Unchanged: done.Unchanged, Failed: done.Failed,
		}
		return err
	})
	return result, err
}
