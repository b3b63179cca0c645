// Copies of what the README's framework code uses, as the frameworks' documents say: their packages are none of Debian's.
declare module 'next/server' {
  export class NextRequest extends Request { readonly nextUrl: URL }
  export class NextResponse extends Response { static next(): NextResponse }
}

declare module '@sveltejs/kit' {
  export interface RequestEvent { request: Request; url: URL; getClientAddress: () => string }
  export type Handle = (input: { event: RequestEvent; resolve: (event: RequestEvent) => Response | Promise<Response> }) => Response | Promise<Response>
}

declare module '@remix-run/node' {
  export interface ActionFunctionArgs { request: Request; params: Record<string, string | undefined> }
}

declare const process: { env: Record<string, string | undefined> }
declare function signIn(form: FormData): Promise<Response> // the reader's
