// Package accesstest runs everything as users of a server that have the generated rights and no others.
package accesstest
