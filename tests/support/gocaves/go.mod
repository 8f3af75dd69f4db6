module gocaves

go 1.24

require github.com/couchbaselabs/gocaves v0.0.1-75

require (
	github.com/couchbase/gocbcore/v9 v9.0.6 // indirect
	github.com/couchbaselabs/gocaves/mock/data v0.0.0 // indirect
	github.com/dlclark/regexp2 v1.4.1-0.20201116162257-a2a8dda75c91 // indirect
	github.com/dop251/goja v0.0.0-20210427212725-462d53687b0d // indirect
	github.com/go-sourcemap/sourcemap v2.1.3+incompatible // indirect
	github.com/google/uuid v1.1.1 // indirect
	golang.org/x/text v0.3.6 // indirect
)

replace github.com/couchbaselabs/gocaves/client => github.com/couchbaselabs/gocaves/client v0.0.0-20211201195517-a39ea9ff2037

replace github.com/couchbaselabs/gocaves/mock/data => ./data
