// Package docgen writes the documentation that derives from the headers: the function reference, and the bytes of rows
// on the page of the stored form.
package docgen
