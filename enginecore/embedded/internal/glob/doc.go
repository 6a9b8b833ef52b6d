// Package glob matches the patterns of KEYS, SCAN and PSUBSCRIBE.
package glob
