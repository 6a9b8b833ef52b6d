package runtime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ErrSecret marks a WaitpointSecret that cannot be one.
var ErrSecret = errors.New("bad waitpoint secret")

// Sizes of a secret's parts, in bytes.
const (
	minSecret = 16
	maxSecret = 64
	maxKID    = 32
)

// DefaultSecretGrace is what RotateSecrets takes for 0.
const DefaultSecretGrace = 7 * 24 * time.Hour

// WaitpointSecret is what the tokens of waitpoints are signed with: an id, 1 to 32 characters out of a-z, 0-9 and '-', and
// 16 to 64 random bytes in hex. It is stored, for each partition, when a waitpoint is opened there for the first time, and
// by Engine.RotateSecrets. Without it, a random secret is made; so only one who can read the engine's data can make tokens.
func WaitpointSecret(kid, secretHex string) OpenOption {
	return func(c *openConfig) { c.secret = &waitpointSecret{kid, secretHex} }
}

type waitpointSecret struct{ kid, hex string }

func (s *waitpointSecret) check() error {
	if s == nil {
		return nil
	}
	badKID := strings.ContainsFunc(s.kid, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
	if badKID || s.kid == "" || len(s.kid) > maxKID {
		return fmt.Errorf("%w: its id must be 1 to %d characters of a-z, 0-9 and -", ErrSecret, maxKID)
	}
	secret, err := hex.DecodeString(s.hex)
	if err != nil {
		return fmt.Errorf("%w: it is not hex", ErrSecret) // err shows parts of it
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return fmt.Errorf("%w: it has %d bytes, not %d to %d", ErrSecret, len(secret), minSecret, maxSecret)
	}
	return nil
}

func newWaitpointSecret() *waitpointSecret {
	random := make([]byte, 4+32)
	_, _ = rand.Read(random) // never fails
	return &waitpointSecret{"k" + hex.EncodeToString(random[:4]), hex.EncodeToString(random[4:])}
}

// secretBook knows which partitions have a secret.
type secretBook struct {
	core       *enginecore.Engine
	configured *waitpointSecret

	mu    sync.Mutex
	known map[enginecore.Partition]bool
	// unfinished is a rotation to a random secret that has not reached every partition.
	unfinished *waitpointSecret
}

func newSecretBook(core *enginecore.Engine, configured *waitpointSecret) *secretBook {
	return &secretBook{core: core, configured: configured, known: make(map[enginecore.Partition]bool)}
}

// ensure gives the partition a secret if it has none. It asks the engine once for each partition.
func (b *secretBook) ensure(ctx context.Context, p enginecore.Partition) error {
	b.mu.Lock()
	known := b.known[p]
	b.mu.Unlock()
	if known {
		return nil
	}
	secret := b.configured
	if secret == nil {
		secret = newWaitpointSecret()
	}
	if err := b.create(ctx, p, secret); err != nil {
		return fmt.Errorf("waitpoint secret of partition %s: %w", p.Tag(), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[p] = true
	return nil
}

// with calls do, which needs the partition's secret. A partition that has lost its secret, because the data of a server
// were lost or emptied, gets another one.
func (b *secretBook) with(ctx context.Context, p enginecore.Partition, do func() error) error {
	if err := b.ensure(ctx, p); err != nil {
		return err
	}
	err := do()
	if !errors.Is(err, enginecore.ErrHMACSecretNotInitialized) {
		return err
	}
	b.mu.Lock()
	delete(b.known, p)
	b.mu.Unlock()
	if err := b.ensure(ctx, p); err != nil {
		return err
	}
	return do()
}

// create stores a secret where there is none. Two processes may do so at once: the first one's secret stays, and it is
// current only when it is there.
func (b *secretBook) create(ctx context.Context, p enginecore.Partition, s *waitpointSecret) error {
	reply, err := b.core.ListWaitpointHMACKIDs(ctx, enginecore.ListWaitpointHMACKIDsCall{Partition: p})
	if err != nil || reply.CurrentKID != "" {
		return err
	}
	client, key := b.core.Client(), b.core.Keys().WaitpointSecrets(p)
	for _, set := range [][2]string{{"secret:" + s.kid, s.hex}, {"current_kid", s.kid}} {
		if err := client.Do(ctx, client.B().Hsetnx().Key(key).Field(set[0]).Value(set[1]).Build()).Error(); err != nil {
			return enginecore.ConnectError(err)
		}
	}
	return nil
}

// Rotation is what has become of a RotateSecrets.
type Rotation struct {
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
func (e *Engine) RotateSecrets(ctx context.Context, grace time.Duration) (Rotation, error) {
	if err := e.open(); err != nil {
		return Rotation{}, err
	}
	if grace < 0 {
		return Rotation{}, fmt.Errorf("rotate secrets: grace %s: must not be negative", grace)
	}
	if grace == 0 {
		grace = DefaultSecretGrace
	}
	return e.session.secrets.rotate(ctx, grace)
}

func (b *secretBook) rotate(ctx context.Context, grace time.Duration) (Rotation, error) {
	secret := b.next()
	done, err := admin.New(b.core).RotateSecret(ctx, admin.Secret{KID: secret.kid, Hex: secret.hex}, grace)
	if err == nil {
		b.finished(secret)
	}
	return Rotation{KID: secret.kid, Rotated: done.Rotated, Unchanged: done.Unchanged, Failed: done.Failed}, err
}

// next is the secret to rotate to.
func (b *secretBook) next() *waitpointSecret {
	if b.configured != nil {
		return b.configured
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unfinished == nil {
		b.unfinished = newWaitpointSecret()
	}
	return b.unfinished
}

func (b *secretBook) finished(s *waitpointSecret) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unfinished == s {
		b.unfinished = nil
	}
}
