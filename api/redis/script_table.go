package redis

// scripts has the known scripts by the SHA-1 of the text that a library sends, in hexadecimal. The sums were computed
// from the files that are named, at the tags of the versions. docs/scripts.md says what each script becomes.
var scripts = map[string]*verb{
	// go-redis/redis_rate: lua.go. v9.1.0; v9.1.1 to v10.0.1
	"b51fcf1fec2622e401ecd1495ba719a525362891": &rateAllowN,
	"f52a5b566060d79fd321d695df55bc918339c4aa": &rateAllowN,
	"a6aad3b47e739a75dad60abfc23778c5cf863397": &rateAllowAtMost,
	"054143318f521948424aa25df61d7f7ba835a9d7": &rateAllowAtMost,

	// traefik/traefik: pkg/middlewares/ratelimiter/lua.go. v3.4.0 to v3.6.21 and v3.7.5; v3.6.22, v3.7.6 and later
	"a82138cfb0cc9aa6e05d666c1f912744aefbe711": &traefikBucket,
	"3d93177e9b9a18f241edddc8d7e7fa1c47ae4eb6": &traefikBucket,

	// spring-cloud/spring-cloud-gateway: META-INF/scripts/request_rate_limiter.lua. v2.2.3 to v3.0.5; v3.0.6 to
	// v4.0.0-RC3; v4.0.1 to v4.3.0-M2; v4.3.0-M3 to v5.0.3
	"9d491aea731237273f4274f9ed9660b432b23791": &springBucket,
	"76a566c51f92d8f643d16e0ef0101663d5380dba": &springBucket,
	"775635cca91092477cbcee85fd800accb6adc4b2": &springBucket,
	"0ad5736ed1c04aae6ec194376c784b89b8c08a7a": &springBucket,

	// alisaifee/limits: limits/resources/redis/lua_scripts. acquire_moving_window.lua of 2.3.0; 2.5.0; 3.1.6;
	// 3.5.0; 5.0.0 to 5.8.0, and each up to the next. incr_expire.lua of 2.3.0 to 5.8.0
	"d2a3aeb88bc5648c36fed2636c03c52d5ae2ce18": &limitsMovingWindow,
	"d19f37c18768a509dbf1310a257bfc35be65609f": &limitsMovingWindow,
	"bec85d5af0739203306474d2cac591c3d6f907d2": &limitsMovingWindow,
	"19c9778cd6391e2ee9f90aa518bf56256d15b4ae": &limitsMovingWindow,
	"741eab638ba93ed71020bb821c45c022d0fa02c4": &limitsMovingWindow,
	"628bd136a573a06b346879695681af12ccef300f": &limitsFixedWindow,

	// express-rate-limit/rate-limit-redis: src/lib.ts, source/lib.ts, source/scripts.ts. Increment of v3.0.0 to
	// v4.2.0; v4.2.1 and v4.2.2; v4.2.3 to v5.0.0. Get of v4.1.0 to v5.0.0
	"3f424a504987d231baa2e19159bb5def8ad32f87": &expressIncrement,
	"b829ec02dca78a148dfc75dd3c86f488ed007c68": &expressIncrement,
	"81dbecea94d2d10514719b20ed51faf711529d9d": &expressIncrement,
	"6aeb97ed6086dcdeafdc6fda3999a0d0e38ec96a": &expressGet,

	// animir/node-rate-limiter-flexible: lib/RateLimiterRedis.js of v2.0.0 to v11.1.0, lib/RateLimiterValkey.js of
	// v6.0.0 to v11.1.0
	"a1de965f42e177aa339706bd580f049065eca79a": &flexibleIncrement,
	"0aa93fe6a34317527000a66828426c0ae2104618": &flexibleIncrement,

	// Kong/kong: kong/plugins/rate-limiting/policies/init.lua of 3.4.0 to 3.9.3. 2.8 to 3.3 send plain commands
	"c0c8112b7b72f6e62996d9728dce30fac38286b6": &kongUsage,
	"5d30863604236a151eb61aae06fd7c8ba051d3e0": &kongSync,

	// apache/apisix: apisix/plugins/limit-count/limit-count-redis.lua of 2.6 to 2.12.1; 2.13.0 to 3.1.0; 3.2;
	// 3.3.0 to 3.17.0; util.lua of 3.18.0; after core.string.compress_script where it is called
	"bb0479e9cabd04f159303e3f9c6a6a168dff2f01": &apisixCount1,
	"533ce5b4ac29007b7027350d5e617f5e03b4a78d": &apisixCount1,
	"7d33b3fe1f1ee11cb307d28b29c667e2c38bb047": &apisixCount2,
	"a6c8920a2a771731d5551d404f57f63491af8fac": &apisixCount3,
	"4290663dbaf4059eff26fa6a41958a298e9391b5": &apisixCount4,
	// limit-req/util.lua of 3.17.0 and 3.18.0, likewise compressed. 3.9 to 3.16 send plain commands
	"f31f43545aa96f31eba19631911616483ff2ec73": &apisixRequests,

	// laravel/framework: Illuminate/Cache/RedisStore.php and LuaScripts.php of v8 to v13
	"a08c9c69b7c07ae2485190873b90d128a23e502d": &laravelAdd,
}
