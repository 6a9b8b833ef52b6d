// Package serve has the commands that serve engines, and doctor, which inspects one.
package serve
