//go:build unix

package aof

const dirSyncUnsupported = false
