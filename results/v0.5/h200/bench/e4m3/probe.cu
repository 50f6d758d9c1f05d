// What e4m3 wgmma keeps: one m64n8k32 a launch, A from registers (row 0 matters), B column 0.
#include <cstdio>
#include <cmath>
#include <cstdint>
#include <cstring>
__global__ void one(const uint8_t*a,const uint8_t*b,float acc,int use,float*out){
  __shared__ __align__(1024) uint8_t sb[8*128]; int t=threadIdx.x;
  for(int i=t;i<8*128;i+=128) sb[i]=0; __syncthreads();
  if(t<32) sb[ ((t/16)^0)*16 + t%16 ]=b[t];
  asm volatile("fence.proxy.async.shared::cta;":::"memory"); __syncthreads();
  uint32_t r[4]={0,0,0,0}; int lane=t%32; if(t/32==0 && lane<4){ memcpy(&r[0],a+4*lane,4); memcpy(&r[2],a+16+4*lane,4);} 
  float d[4]={acc,acc,acc,acc};
  uint64_t desc=0x4000004000000000ull | (uint64_t)(((uint32_t)__cvta_generic_to_shared(sb))>>4) | 0x10000ull;
  asm volatile("wgmma.fence.sync.aligned;":::"memory");
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %9, 0;\nwgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3},{%4,%5,%6,%7},%8,p,1,1;\n}":"+f"(d[0]),"+f"(d[1]),"+f"(d[2]),"+f"(d[3]):"r"(r[0]),"r"(r[1]),"r"(r[2]),"r"(r[3]),"l"(desc),"r"(use));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;":::"memory");
  if(t==0) *out=d[0];
}
static uint8_t enc(double v){ if(v==0) return 0; int s=v<0; v=fabs(v); int e; frexp(v,&e); e-=1; if(e<-6)e=-6; int m=(int)lrint(ldexp(v,3-e)); int c=m+8*(e+6); return (uint8_t)(c|s<<7);} 
static uint8_t *da,*db; static float *dout;
static float run(const double*a,const double*b,float acc,int use){ uint8_t ha[32],hb[32]; for(int i=0;i<32;i++){ha[i]=enc(a[i]);hb[i]=enc(b[i]);} cudaMemcpy(da,ha,32,cudaMemcpyHostToDevice);cudaMemcpy(db,hb,32,cudaMemcpyHostToDevice); one<<<1,128>>>(da,db,acc,use,dout); float o; cudaMemcpy(&o,dout,4,cudaMemcpyDeviceToHost); return o; }
int main(){ cudaMalloc(&da,32);cudaMalloc(&db,32);cudaMalloc(&dout,4); double a[32],b[32];
  auto clear=[&]{for(int i=0;i<32;i++)a[i]=b[i]=0;};
  printf("1 product 2^0 and one of 2^-j: kept bits\n"); for(int other=1;other<32;other+=5){ printf(" k=%d:",other); for(int j=8;j<=17;j++){ clear(); a[0]=1;b[0]=1; a[other]=ldexp(1,-(j/2>6?6:j/2)); b[other]=ldexp(1,-(j-(j/2>6?6:j/2))); float o=run(a,b,0,0); printf(" 2^-%d:%g",j,ldexp(o-1.0,j)); } printf("\n"); }
  printf("2 the same with 3 * 2^-j (2 bits), sign minus: (o-1)*2^j\n"); for(int j=8;j<=17;j++){ clear(); a[0]=1;b[0]=1; int h=j/2>6?6:j/2; a[1]=-3*ldexp(1,-h); b[1]=ldexp(1,-(j-h)); printf(" %g",ldexp(run(a,b,0,0)-1.0,j)); } printf("\n");
  printf("3 31 products of 2^-j beside 2^0: (o-1)*2^j (31 if kept)\n"); for(int j=8;j<=17;j++){ clear(); a[0]=1;b[0]=1; int h=j/2>6?6:j/2; for(int i=1;i<32;i++){a[i]=ldexp(1,-h); b[i]=ldexp(1,-(j-h));} printf(" 2^-%d:%g",j,ldexp(run(a,b,0,0)-1.0,j)); } printf("\n");
  printf("4 accumulator 1 + 2^-j, products zero: (o-1)*2^j\n"); for(int j=8;j<=23;j++){ clear(); printf(" %d:%g",j,ldexp(run(a,b,(float)(1+ldexp(1,-j)),1)-1.0,j)); } printf("\n");
  printf("5 accumulator 2^-j, product 1: (o-1)*2^j\n"); for(int j=8;j<=23;j++){ clear(); a[0]=b[0]=1; printf(" %d:%g",j,ldexp(run(a,b,(float)ldexp(1,-j),1)-1.0,j)); } printf("\n");
  printf("6 accumulator 1, product 2^-j: (o-1)*2^j\n"); for(int j=8;j<=17;j++){ clear(); int h=j/2>6?6:j/2; a[0]=ldexp(1,-h); b[0]=ldexp(1,-(j-h)); printf(" %d:%g",j,ldexp(run(a,b,1,1)-1.0,j)); } printf("\n");
  printf("7 subnormal weight 2^-9 times 1, and 2^-9 times 2^-j: (o*2^9-1)*2^j (kept bits less if not normalised)\n"); for(int j=4;j<=9;j++){ clear(); a[0]=a[1]=ldexp(1,-9); b[0]=256; b[1]=ldexp(256,-j); printf(" %d:%g",j,ldexp(run(a,b,0,0)/256*512-1.0,j)); } for(int j=10;j<=15;j++){ clear(); a[0]=a[1]=ldexp(1,-9); b[0]=256; b[1]=ldexp(256,-j); printf(" %d:%g",j,ldexp(run(a,b,0,0)/256*512-1.0,j)); } printf("\n");
  printf("8 normal weight 1 times 256, and 1 times 256*2^-j: (o/256-1)*2^j\n"); for(int j=4;j<=16;j++){ clear(); a[0]=a[1]=1; b[0]=256; b[1]=ldexp(256,-j); printf(" %d:%g",j,ldexp(run(a,b,0,0)/256-1.0,j)); } printf("\n");
  printf("9 sums that carry: 8 products of 1, 1 of 2^-j: (o-8)*2^j\n"); for(int j=8;j<=14;j++){ clear(); for(int i=0;i<8;i++)a[i]=b[i]=1; int h=j/2>6?6:j/2; a[9]=ldexp(1,-h); b[9]=ldexp(1,-(j-h)); printf(" %d:%g",j,ldexp(run(a,b,0,0)-8.0,j)); } printf("\n");
  printf("10 minus 2^0 and 2^-j: (o+1)*2^j\n"); for(int j=8;j<=17;j++){ clear(); a[0]=-1;b[0]=1; int h=j/2>6?6:j/2; a[1]=ldexp(1,-h); b[1]=ldexp(1,-(j-h)); printf(" %d:%g",j,ldexp(run(a,b,0,0)+1.0,j)); } printf("\n");
  printf("last: %s\n",cudaGetErrorString(cudaDeviceSynchronize())); }
