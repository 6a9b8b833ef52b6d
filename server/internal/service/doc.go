// Package service performs the operations of package api on an engine.
package service
