// Package e2e clicks through the pages of the example programs in a real browser. It is a module of its own, so that
// the driver of the browser is not a dependency of the library. `make e2e` runs it.
package e2e
