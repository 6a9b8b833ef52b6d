package conformance

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"strings"
)

const (
	recordPrefix = "ff:wp:"
	secretPrefix = "ff:sec:"
	rotateCall   = "ff_rotate_waitpoint_hmac_secret"
)

// tokens knows the secrets that a trace gave away and the tokens that turned
// out to be genuine.
type tokens struct {
	secrets map[string][]string // by key id, in hex, oldest first
	genuine map[string]bool
}

func newTokens() *tokens {
	return &tokens{secrets: map[string][]string{}, genuine: map[string]bool{}}
}

// learn takes secrets from the concrete arguments of a step.
func (t *tokens) learn(step *Step, args []string) {
	if step.Function == rotateCall && len(args) >= 2 {
		t.secrets[args[0]] = append(t.secrets[args[0]], args[1])
		return
	}
	if step.Function != "" || len(args) < 2 || !strings.EqualFold(args[0], "HSET") ||
		!strings.HasPrefix(args[1], secretPrefix) {
		return
	}
	for i := 2; i+1 < len(args); i += 2 {
		if kid, ok := strings.CutPrefix(args[i], "secret:"); ok {
			t.secrets[kid] = append(t.secrets[kid], args[i+1])
		}
	}
}

// verify is whether a text is a genuine token of a key id for a record.
func (t *tokens) verify(kid, text string, record map[string]string) bool {
	m := tokenText.FindStringSubmatch(text)
	if m == nil || m[1] != kid {
		return false
	}
	for _, secret := range t.secrets[kid] {
		if sign(secret, kid, record) == text {
			t.genuine[text] = true
			return true
		}
	}
	return false
}

// mint makes the token of a record under one of the secrets, preferring the
// given one.
func (t *tokens) mint(kid, secret string, record map[string]string) string {
	known := t.secrets[kid]
	if secret == "" && len(known) > 0 {
		secret = known[len(known)-1]
	}
	token := sign(secret, kid, record)
	t.genuine[token] = true
	return token
}

func sign(secret, kid string, record map[string]string) string {
	key, err := hex.DecodeString(secret)
	if err != nil {
		return ""
	}
	mac := hmac.New(sha1.New, key)
	mac.Write([]byte(record["waitpoint_id"] + "|" + record["waitpoint_key"] + "|" + record["created_at"]))
	return kid + ":" + hex.EncodeToString(mac.Sum(nil))
}

// tokenKID returns the key id of a template for a token.
func tokenKID(template string) (string, bool) {
	kid, ok := strings.CutPrefix(template, "${token:")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(kid, "}")
}
