// Package httpcall sends the requests of the operations of package httpapi: for the methods of package httpclient, and
// for parts of this project that choose an operation at run time.
package httpcall
