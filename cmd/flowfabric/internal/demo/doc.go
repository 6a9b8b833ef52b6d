// Package demo has the flows of flowfabric dev --demo, with runs in every state, so that each page of the console has
// something to show: a small shop that ships orders, imports files, sends mail and releases software.
package demo
