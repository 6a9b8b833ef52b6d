// Package inbound bounds the bodies of requests: the time in which they arrive, whether their handlers read them or
// not, and their form.
package inbound
