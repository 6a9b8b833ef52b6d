// Package cliflag has the flags that several commands take, and reads times as people write them.
package cliflag
