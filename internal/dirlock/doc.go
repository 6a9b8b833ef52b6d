// Package dirlock locks directories, so that one process at a time uses their files.
package dirlock
