// Package resp has the replies of commands and the Redis serialization protocol (RESP), versions 2 and 3: it reads
// requests and writes replies.
package resp
