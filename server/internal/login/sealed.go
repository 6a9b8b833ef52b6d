package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// sealer encrypts and authenticates the values of one kind of cookie.
type sealer struct {
	aead    cipher.AEAD
	purpose []byte
}

// newSealer derives the key of a purpose from a secret, so that a cookie of one kind is none of another.
func newSealer(secret []byte, purpose string) (*sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "flowfabric "+purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &sealer{aead, []byte(purpose)}, nil
}

var errSeal = errors.New("the cookie is not one of this server")

func (s *sealer) seal(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, s.purpose)), nil
}

func (s *sealer) open(text string, value any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return errSeal
	}
	plain, err := s.aead.Open(nil, nil, sealed, s.purpose)
	if err != nil {
		return errSeal
	}
	return json.Unmarshal(plain, value)
}

// cookies are the cookies of a server at one address.
type cookies struct {
	path   string
	secure bool
}

// name is the name of a cookie. Browsers accept the prefix for cookies of the whole host over HTTPS only, so that no
// other host can set them.
func (c cookies) name(base string) string {
	if c.secure && c.path == "/" {
		return "__Host-" + base
	}
	return base
}

// set sets a cookie; a negative life deletes it.
func (c cookies) set(w http.ResponseWriter, base, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: c.name(base), Value: value, Path: c.path, MaxAge: int(life / time.Second), Secure: c.secure,
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// get returns the value of a cookie; empty without one.
func (c cookies) get(r *http.Request, base string) string {
	cookie, err := r.Cookie(c.name(base))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// randomText returns 256 random bits as text.
func randomText() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
