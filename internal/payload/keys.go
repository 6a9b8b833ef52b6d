package payload

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
)

// KeyBytes is the length of the secret of a key.
const KeyBytes = 32

// maxKeyID bounds the ids of keys, which each sealed value has.
const maxKeyID = 32

// Key is a master key, from which the keys of runs are derived.
type Key struct {
	ID     string // 1 to 32 letters, digits, '.', '_' and '-'; it is stored with each value
	Secret []byte // KeyBytes random bytes
}

// Ring holds the keys of a program. The first one seals, all of them open. It is safe for concurrent use.
type Ring struct{ keys atomic.Pointer[[]ringKey] }

type ringKey struct {
	id  string
	prk []byte
}

// NewRing returns a ring with keys, the newest first. The error wraps ErrBadKey.
func NewRing(keys ...Key) (*Ring, error) {
	r := &Ring{}
	return r, r.Replace(keys...)
}

// Errors of keys and of values that cannot be opened.
var (
	ErrBadKey     = errors.New("invalid payload key")
	ErrKeyMissing = errors.New("payload key missing")
	ErrAltered    = errors.New("payload altered")
)

// Replace replaces the keys, the newest first, while values are sealed and opened. The error wraps ErrBadKey, and the
// keys are as they were then.
func (r *Ring) Replace(keys ...Key) error {
	if len(keys) == 0 {
		return fmt.Errorf("%w: there is none", ErrBadKey)
	}
	list := make([]ringKey, len(keys))
	seen := make(map[string]bool, len(keys))
	for i, k := range keys {
		if err := checkKey(k); err != nil {
			return err
		}
		if seen[k.ID] {
			return fmt.Errorf("%w: two keys have the id %q", ErrBadKey, k.ID)
		}
		seen[k.ID] = true
		prk, err := hkdf.Extract(sha256.New, k.Secret, []byte("flowfabric payload"))
		if err != nil {
			return fmt.Errorf("%w: %q: %w", ErrBadKey, k.ID, err)
		}
		list[i] = ringKey{k.ID, prk}
	}
	r.keys.Store(&list)
	return nil
}

func checkKey(k Key) error {
	if k.ID == "" || len(k.ID) > maxKeyID {
		return fmt.Errorf("%w: the id %q has %d bytes, it must have 1 to %d", ErrBadKey, k.ID, len(k.ID), maxKeyID)
	}
	for _, c := range k.ID {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%w: the id %q has the character %q", ErrBadKey, k.ID, c)
		}
	}
	if len(k.Secret) != KeyBytes {
		return fmt.Errorf("%w: %q has %d bytes, it must have %d", ErrBadKey, k.ID, len(k.Secret), KeyBytes)
	}
	return nil
}

// newest returns the key that seals.
func (r *Ring) newest() ringKey { return (*r.keys.Load())[0] }

// find returns a key by its id. The error wraps ErrKeyMissing.
func (r *Ring) find(id string) (ringKey, error) {
	if r != nil {
		for _, k := range *r.keys.Load() {
			if k.id == id {
				return k, nil
			}
		}
	}
	return ringKey{}, fmt.Errorf("%w: %q", ErrKeyMissing, id)
}

// of returns the cipher of an owner's values.
func (k ringKey) of(owner string) (cipher.AEAD, error) {
	secret, err := hkdf.Expand(sha256.New, k.prk, "values of "+owner, KeyBytes)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
