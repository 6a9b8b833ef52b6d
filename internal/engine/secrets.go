package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/errorwords"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Sizes of a secret's parts, in bytes.
const (
	minSecret = 16
	maxSecret = 64
	maxKID    = 32
)

// WaitpointSecret is a secret that signs the tokens of waitpoints: its key id and its bytes in hex.
type WaitpointSecret struct{ KeyID, Hex string }

// Check returns an error that wraps [ErrInvalid] if the key id or the secret is malformed or out of bounds. The error
// does not contain the secret. A nil secret is valid.
func (s *WaitpointSecret) Check() error {
	if s == nil {
		return nil
	}
	badKID := strings.ContainsFunc(s.KeyID, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
	if badKID || s.KeyID == "" || len(s.KeyID) > maxKID {
		return fmt.Errorf("%w: WaitpointSecret.KID %.40q: must be 1 to %d characters of a-z, 0-9 and -", ErrInvalid,
			s.KeyID, maxKID)
	}
	secret, err := hex.DecodeString(s.Hex)
	if err != nil {
		return fmt.Errorf("%w: WaitpointSecret.Hex: it is not hex", ErrInvalid) // err shows parts of it
	}
	if len(secret) < minSecret || len(secret) > maxSecret {
		return fmt.Errorf("%w: WaitpointSecret.Hex: %d bytes, must be %d to %d", ErrInvalid, len(secret), minSecret,
			maxSecret)
	}
	return nil
}

func newWaitpointSecret() *WaitpointSecret {
	random := make([]byte, 4+32)
	_, _ = rand.Read(random) // never fails
	return &WaitpointSecret{"k" + hex.EncodeToString(random[:4]), hex.EncodeToString(random[4:])}
}

// keyring knows which partitions have a secret.
type keyring struct {
	core       *enginerpc.Conn
	configured *WaitpointSecret

	mu    sync.Mutex
	known map[keyspace.Partition]bool
	// unfinished is a rotation to a random secret that has not reached every partition.
	unfinished *WaitpointSecret
}

func newKeyring(core *enginerpc.Conn, configured *WaitpointSecret) *keyring {
	return &keyring{core: core, configured: configured, known: make(map[keyspace.Partition]bool)}
}

// Ensure gives the partition a secret if it has none. It calls the engine once for each partition.
func (b *keyring) Ensure(ctx context.Context, p keyspace.Partition) error {
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

// With calls do after making sure that the partition has a secret. If do reports that the partition has lost its
// secret, because the data of a server were lost or emptied, With creates another one and calls do once more.
func (b *keyring) With(ctx context.Context, p keyspace.Partition, do func() error) error {
	if err := b.Ensure(ctx, p); err != nil {
		return err
	}
	err := do()
	if !errors.Is(err, errorcode.HMACSecretNotInitialized) {
		return err
	}
	b.mu.Lock()
	delete(b.known, p)
	b.mu.Unlock()
	if err := b.Ensure(ctx, p); err != nil {
		return err
	}
	return do()
}

// create stores a secret where there is none. Two processes may do so at once: the first one's secret stays, and it is
// current only when it is there.
func (b *keyring) create(ctx context.Context, p keyspace.Partition, s *WaitpointSecret) error {
	reply, err := b.core.ListWaitpointHMACKIDs(ctx, enginerpc.ListWaitpointHMACKIDsCall{Partition: p})
	if err != nil || reply.CurrentKID != "" {
		return err
	}
	key := b.core.Keys().WaitpointSecrets(p)
	for _, set := range [][2]string{{"secret:" + s.KeyID, s.Hex}, {"current_kid", s.KeyID}} {
		err := b.core.Repeat(ctx, "HSETNX", func(build rueidis.Builder) rueidis.Completed {
			return build.Hsetnx().Key(key).Field(set[0]).Value(set[1]).Build()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Rotate makes the next secret current in every partition, and returns its key id and the progress. The former secret
// stays valid for grace. After an error, the next call continues with the same secret.
func (b *keyring) Rotate(
	ctx context.Context, grace time.Duration,
) (kid string, done enginerpc.SecretRotation, err error) {
	secret := b.next()
	done, err = b.core.RotateSecret(ctx, secret.KeyID, secret.Hex, grace)
	if err == nil {
		b.finished(secret)
	}
	return secret.KeyID, done, err
}

// next is the secret to rotate to.
func (b *keyring) next() *WaitpointSecret {
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

func (b *keyring) finished(s *WaitpointSecret) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unfinished == s {
		b.unfinished = nil
	}
}

// searchSecretKept is how long a session uses a key without reading it again: another one is there after the data of
// the engine were lost.
const searchSecretKept = time.Minute

// searchSecret is the secret of the words of errors, as it was read last.
type searchSecret struct {
	mu     sync.Mutex
	secret errorwords.Key
	readAt time.Time
}

// SearchKey returns the key with which programs hash the words of errors of a namespace. It follows from a secret of
// the deployment, which the engine has, and which the first program that needs it makes.
func (s *Session) SearchKey(ctx context.Context, namespace keyspace.Namespace) (errorwords.Key, error) {
	k := &s.search
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.secret != nil && time.Since(k.readAt) < searchSecretKept {
		return k.secret.For(string(namespace)), nil
	}
	if !s.IsWhole() {
		return nil, errors.New("contract mode has no words of errors")
	}
	proposed := make([]byte, 32)
	_, _ = rand.Read(proposed) // never fails
	reply, err := s.Core.SearchSecret(ctx, enginerpc.SearchSecretCall{
		Partition: Directory(), Proposed: proposed,
	})
	if err != nil {
		return nil, err
	}
	k.secret, k.readAt = reply.Secret, time.Now()
	return k.secret.For(string(namespace)), nil
}
