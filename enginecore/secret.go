package enginecore

import "fmt"

// WaitpointSecret is a secret that signs the tokens of waitpoints. The zero value means a random secret.
type WaitpointSecret struct {
	// KID is the id of the secret: 1 to 32 characters of a-z, 0-9 and -.
	KID string
	// Hex is the secret itself: 16 to 64 random bytes in hexadecimal.
	Hex string
}

// String returns a text with the KID but without the secret, so that the secret is not written to logs.
func (s WaitpointSecret) String() string { return fmt.Sprintf("waitpoint secret %q", s.KID) }

// GoString returns the same text as String.
func (s WaitpointSecret) GoString() string { return s.String() }

// SecretRotation is the result of runtime.Engine.RotateSecrets.
type SecretRotation struct {
	// KID is the id of the secret that signs tokens now.
	KID string
	// Rotated is the number of partitions that this call changed, Unchanged the number that used the secret before.
	Rotated, Unchanged int
	// Failed has the tags of the partitions that still use another secret, such as {fp:7}, with the error of each.
	Failed map[string]error
}
