package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
)

// defaultSecretGrace is the grace of RotateSecrets for 0.
const defaultSecretGrace = 7 * 24 * time.Hour

// SecretRotation is the result of Engine.RotateSecrets.
type SecretRotation struct {
	// KID is the id of the secret that signs tokens now.
	KID string
	// Rotated is the number of partitions that this call changed, Unchanged the number that used the secret before.
	Rotated, Unchanged int
	// Failed has the tags of the partitions that still use another secret, such as {fp:7}, with the error of each.
	Failed map[string]error
}

// RotateSecrets replaces the secret that signs tokens, in every partition, by OpenConfig.WaitpointSecret or, if that is
// zero, by a new random one. Tokens signed with the previous secret stay valid for the grace time; 0 means 7 days. All
// namespaces share the secret, so a short grace time invalidates tokens of all of them.
//
// When partitions fail, RotateSecrets returns an error and lists them in SecretRotation.Failed; call it again to
// continue. Partitions that were rotated are not rotated again: with a WaitpointSecret from any process, otherwise only
// from this Engine.
func (e *Engine) RotateSecrets(
	ctx context.Context, grace time.Duration, opts ...ActionOption,
) (SecretRotation, error) {
	if err := e.ready(ctx); err != nil {
		return SecretRotation{}, err
	}
	if grace < 0 {
		return SecretRotation{}, fmt.Errorf("rotate secrets: %w", invalid("grace %s: must not be negative", grace))
	}
	if grace == 0 {
		grace = defaultSecretGrace
	}
	by, err := (&Client{}).actionOf(opts)
	if err != nil {
		return SecretRotation{}, fmt.Errorf("rotate secrets: %w", err)
	}
	var result SecretRotation
	entry := fabrictype.AuditEntry{Actor: by.actor, Action: auditlink.RotateSecrets, Detail: "grace " + grace.String()}
	err = e.session.Audited(ctx, entry, func(ctx context.Context) error {
		kid, done, err := e.session.Secrets.Rotate(ctx, grace)
		result = SecretRotation{KID: kid, Rotated: done.Rotated, Unchanged: done.Unchanged, Failed: done.Failed}
		return err
	})
	return result, err
}
