// Package inbound bounds the bodies of requests: the time in which they arrive, whoever reads them or does not, and
// their form.
package inbound
