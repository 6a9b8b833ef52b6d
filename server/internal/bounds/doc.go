// Package bounds bounds how many of something a server has at a time, in sum and for each principal.
package bounds
