// Package sleep lets goroutines sleep for a time or until a channel wakes them.
package sleep
